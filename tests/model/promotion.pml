/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * The protocol of docs/formats/journal.md, small enough to be looked at whole:
 * two boxes that change the same paths, a host that writes at any moment, a death
 * at any step of a promotion, of an undo, and of a recovery, again and again.
 *
 *	spin -a promotion.pml && cc -O2 -o pan pan.c && ./pan
 *
 * A path is one byte for its place in the workspace and one for each box's place
 * in the store. A step swaps the two (an exchange; a rename in or out where one
 * of them is NONE). Renames are atomic, looks are not atomic with them.
 *
 * -DBUG_x breaks the protocol in one place; tools/check sees that each is found:
 *	BUG_EARLY  the first step comes before the intents
 *	BUG_STATE  recovery looks for the old version in the box's place, not for the new one to be gone
 *	BUG_LOCK   recovery does not wait for the lock
 *	BUG_LOOK   nobody looks at what came out
 */

#define N_PATHS 2
#define NONE 0
#define OLD 1     /* and OLD + 1 … : what the workspace held, by path */
#define HOST 20   /* what the host writes: HOST, HOST + 1 */
#define FRESH(b, p) (10 + (b) * 4 + (p)) /* what box b made of path p */

#define EMPTY 0
#define FORWARD 1
#define NEW 2
#define BACK 3
#define GONE 4 /* OLD: taken back, or undone */

byte workspace[N_PATHS];
byte box[4];  /* [b * N_PATHS + p] */
byte before[4]; /* the journal's sides */
byte state[2];  /* the journal's state */
bool left_p[N_PATHS]; /* left to the host and listed */
byte deaths = 0;
byte writes = 0;
bool locked = false;
byte running = 4;
bool touched[N_PATHS]; /* by the host */

#define AT(b, p) ((b) * N_PATHS + (p))

/* A process may die here; the kernel gives its lock back. */
#define MAY_DIE \
	if \
	:: deaths < 2 -> deaths++; locked = false; goto dead \
	:: true \
	fi

inline swap(b, p)
{
	atomic {
		tmp = workspace[p];
		workspace[p] = box[AT(b, p)];
		box[AT(b, p)] = tmp;
		tmp = 0
	}
}

/* Whether the step of the pass that ended in the middle was made. */
#ifdef BUG_STATE
#define WAS_MADE(b, p) (state[b] == FORWARD -> box[AT(b, p)] == before[AT(b, p)] : box[AT(b, p)] == FRESH(b, p))
#else
#define WAS_MADE(b, p) (state[b] == FORWARD -> box[AT(b, p)] != FRESH(b, p) : box[AT(b, p)] != before[AT(b, p)])
#endif
/* What stands in the workspace after the step, if the host has not touched it. */
#define INCOMING(b, p) (state[b] == FORWARD -> FRESH(b, p) : before[AT(b, p)])

/* Takes the pass of box @b back; a death leaves the rest to the next one. */
inline take_back(b)
{
	q = 0;
	do
	:: q < N_PATHS ->
		made = WAS_MADE(b, q);
		if
		:: made && workspace[q] == INCOMING(b, q) ->
			MAY_DIE;
			swap(b, q);
			/* What came out is what went in, or it goes back and is listed. */
			if
			:: box[AT(b, q)] != INCOMING(b, q) -> swap(b, q); left_p[q] = true
			:: else
			fi
		:: made && workspace[q] != INCOMING(b, q) -> left_p[q] = true
		:: else
		fi;
		MAY_DIE;
		q++
	:: else -> break
	od;
	atomic {
		if
		:: state[b] == FORWARD -> state[b] = GONE
		:: state[b] == BACK -> state[b] = NEW
		fi;
		q = 0;
		made = false
	}
}

inline lock()
{
	atomic { !locked -> locked = true }
}

inline recover_all()
{
	r = 0;
	do
	:: r < 2 ->
		if
		:: state[r] == FORWARD || state[r] == BACK -> take_back(r)
		:: else
		fi;
		r++
	:: else -> r = 0; break
	od
}

/* One pass over the paths of box @b. 1 in @refused: it was taken back. */
inline pass(b)
{
	p = 0;
	do
	:: p < N_PATHS ->
		MAY_DIE;
		out = INCOMING(b, p);
		swap(b, p);
		MAY_DIE;
#ifndef BUG_LOOK
		if
		:: box[AT(b, p)] != (state[b] == FORWARD -> before[AT(b, p)] : FRESH(b, p)) ->
			take_back(b);
			refused = true;
			break
		:: else
		fi;
#endif
		p++
	:: else -> break
	od;
	MAY_DIE;
	if
	:: refused
	:: else -> /* the commit record */
		if
		:: state[b] == FORWARD -> state[b] = NEW
		:: state[b] == BACK -> state[b] = GONE
		fi
	fi;
	p = 0
}

proctype promote(byte b)
{
	byte p, q, r, tmp, out;
	bool made, refused, drifted;

	lock();
	recover_all();
	/* Drift: the box began with what @before holds. */
	p = 0;
	do
	:: p < N_PATHS -> drifted = drifted || workspace[p] != before[AT(b, p)]; p++
	:: else -> break
	od;
	if
	:: drifted -> goto over
	:: else
	fi;
	MAY_DIE;
#ifdef BUG_EARLY
	swap(b, 0);
	MAY_DIE;
	swap(b, 0);
#endif
	state[b] = FORWARD; /* intents and PASS, one write */
	pass(b);
	/* Undone at once, or not. */
	if
	:: state[b] == NEW ->
		drifted = false;
		p = 0;
		do
		:: p < N_PATHS -> drifted = drifted || workspace[p] != FRESH(b, p); p++
		:: else -> break
		od;
		if
		:: !drifted -> MAY_DIE; state[b] = BACK; pass(b)
		:: true
		fi
	:: else
	fi;
over:
	locked = false;
dead:
	running--
}

/* Writes its own version, whatever is there: what it replaces it has seen. */
proctype host()
{
	byte p;

	do
	:: writes < 2 ->
		if
		:: p = 0
		:: p = 1
		fi;
		atomic { workspace[p] = HOST + writes; touched[p] = true; writes++ }
	:: true -> break
	od;
	running--
}

/* Another command, which recovers and does nothing else. */
proctype other()
{
	byte q, r, tmp;
	bool made;

#ifndef BUG_LOCK
	lock();
#endif
	recover_all();
#ifndef BUG_LOCK
	locked = false;
#endif
dead:
	running--
}

#define IS_SOMEWHERE(v, p) (workspace[p] == v || box[AT(0, p)] == v || box[AT(1, p)] == v)

init {
	byte p, q, r, tmp;
	bool made, all_new, all_old, all_other;

	atomic {
		workspace[0] = OLD;  /* exchanged */
		workspace[1] = NONE; /* moved in */
		do
		:: p < N_PATHS ->
			before[AT(0, p)] = workspace[p];
			before[AT(1, p)] = workspace[p];
			box[AT(0, p)] = FRESH(0, p);
			box[AT(1, p)] = FRESH(1, p);
			p++
		:: else -> p = 0; break
		od
	}
	run promote(0);
	run promote(1);
	run host();
	run other();
	running == 0;
	/* The next command, whatever has died before. */
	deaths = 2;
	lock();
	recover_all();
dead:
	/* Nothing is pending, and what the host did not touch is of one piece. */
	assert(state[0] != FORWARD && state[0] != BACK);
	assert(state[1] != FORWARD && state[1] != BACK);
	assert(!(state[0] == NEW && state[1] == NEW));
	r = 0;
	do
	:: r < N_PATHS ->
		if
		:: !touched[r] ->
			assert(!left_p[r]);
			assert(workspace[r] == (state[0] == NEW -> FRESH(0, r) :
			       (state[1] == NEW -> FRESH(1, r) : before[AT(0, r)])))
		:: else
		fi;
		/* No version is lost but by a hand of the host's. */
		assert(touched[r] || before[AT(0, r)] == NONE || IS_SOMEWHERE(before[AT(0, r)], r));
		r++
	:: else -> break
	od;
	/* The host's last word on a path is there, in place unless it is listed. */
	if
	:: writes > 0 ->
		r = HOST + writes - 1;
		assert(IS_SOMEWHERE(r, 0) || IS_SOMEWHERE(r, 1));
		assert(workspace[0] == r || workspace[1] == r || left_p[0] || left_p[1])
	:: else
	fi
}
