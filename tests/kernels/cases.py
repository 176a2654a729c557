# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of cases, and where each of them is run.

A case is a script of the caller's, which begins in a fresh workspace (guest/library) and calls
`box`, that is `nex-box run` with the strategy under test. Its exit status, what it says and, where
it printed one, the outcome's document are compared. Attacks are first made without the box.
"""

from dataclasses import dataclass, field, replace

LANDLOCK = "landlock"
NAMESPACES = "namespaces"
LANDLOCK_GIVES_ALL = 6  # the level from which the landlock tier has all of these
DEFAULT_GUARANTEES = ("fs-write", "fs-secrets", "net", "processes", "syscalls")
USER, ROOT = "box", "root"
BOTH = (USER, ROOT)


@dataclass(frozen=True)
class Place:
    """A strategy on a filesystem, in a tier. @callers: for whom it is tried; @since: which Linux."""

    strategy: str
    filesystem: str
    tier: str = NAMESPACES
    callers: tuple = BOTH
    since: tuple = (0, 0)

    def __str__(self):
        return f"{self.strategy}-{self.filesystem}" + ("" if self.tier == NAMESPACES else f"-{self.tier}")


# A strategy is a line or more; one that the program names and that has none here fails the suite.
PLACES = (
    Place("overlay", "ext4"),
    Place("overlay", "xfs", callers=(USER,)),
    Place("overlay", "btrfs", callers=(USER,)),
    Place("overlay", "tmpfs", callers=(USER,), since=(6, 6)),
    Place("btrfs-snapshot", "btrfs"),
    Place("reflink", "xfs"),
    Place("reflink", "btrfs", callers=(USER,)),
    Place("fuse-overlayfs", "ext4"),
    Place("copy", "ext4"),
    Place("copy", "tmpfs", callers=(USER,)),
    Place("reflink", "xfs", LANDLOCK, (USER,)),
    Place("copy", "ext4", LANDLOCK, (USER,)),
)
AUTO = Place("auto", "ext4")
NO_TIER = Place("copy", "ext4", LANDLOCK, (USER,), since=(6, 12))

# What the enclave does is not the strategy's: a layer, a tree, and each tier are enough.
ENCLAVE = tuple(place for place in PLACES if place.filesystem == "ext4" and place.strategy in ("overlay", "copy"))

WITH_OVERLAYS = tuple(place for place in ENCLAVE if place.tier == NAMESPACES)
SCOPED = (*WITH_OVERLAYS, Place("copy", "ext4", LANDLOCK, (USER,), since=(6, 12)))

# How a machine without user namespaces looks; undone after each case.
RESTRICTION = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
POLICY = "/sys/kernel/security/apparmor"
LOAD = f"cat /check/unprivileged_userns >{POLICY}/.load; echo 1 >{RESTRICTION}"
UNLOAD = f"echo 0 >{RESTRICTION}; printf unprivileged_userns >{POLICY}/.remove"
DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"
KNOB = "box --json -- echo in-the-box"
# As a service manager gives a part of v2 to a user: the case, and all that it starts, is in a leaf of it.
GIVE = """cd /sys/fs/cgroup; echo "+memory +pids +cpu" >cgroup.subtree_control; mkdir -p given/leaf
echo "+memory +pids +cpu" >given/cgroup.subtree_control; chown -R box given; echo 1 >given/leaf/cgroup.procs"""
TAKE = "cd /sys/fs/cgroup; echo 1 >cgroup.procs; rmdir given/leaf; rmdir given"
NONE_LEFT = "s=$?; ls -d /sys/fs/cgroup/nex-box.* /sys/fs/cgroup/*/nex-box.* /sys/fs/cgroup/given/leaf/?*/ 2>/dev/null && exit 96; exit $s"
NO_NAMESPACES = ("sysctl -w user.max_user_namespaces=0", "sysctl -w user.max_user_namespaces=4096")


@dataclass(frozen=True)
class Case:
    """One row.

    @script:     what the caller runs
    @status:     its exit status
    @says:       regular expressions that its output (both streams) must match
    @never:      text that must not be in its output
    @document:   dotted names of the outcome and their values; STRATEGY, TIER and so on stand for the place's
    @because:    there are no namespaces: the run goes on in the landlock tier with all the default
                 guarantees where the kernel can give them, and is refused elsewhere; why the better
                 tier was passed over must match this
    @callers:    who runs it
    @places:     where; none: once, at AUTO
    @needs:      a path without which the kernel cannot be asked
    @before:     root's script that makes the machine so, and @after: as it was
    """

    name: str
    script: str
    status: int = 0
    says: tuple = ()
    never: tuple = ()
    document: dict = field(default_factory=dict, hash=False)
    because: str = None
    callers: tuple = BOTH
    places: tuple = PLACES
    needs: str = ""
    before: str = ""
    after: str = ""
    caller: str = ""
    place: Place = AUTO

    def whole_script(self, number):
        """The script with what goes before it."""
        head = f"NUMBER={number} STRATEGY={self.place.strategy} FILESYSTEM={self.place.filesystem}"
        return f"{head} TIER={self.place.tier}\n. /check/library\n{self.script.strip()}\n"

    def __str__(self):
        return f"{self.place}-{'user' if self.caller == USER else 'root'}-{self.name}"


STRATEGY, TIER, FS_WRITE, PROCESSES = object(), object(), object(), object()

TABLE = (
    Case("a run tells what holds",
         "box --json -- true",
         document={"status": 0, "strategy": STRATEGY, "tier": TIER, "guarantees.fs-write": FS_WRITE,
                   "guarantees.fs-secrets": True, "guarantees.net": True, "guarantees.processes": PROCESSES,
                   "guarantees.syscalls": True, "diff.entries": []}),
    Case("a promoted change is the whole change",
         """
         box --commit -- sh -c 'echo new >new; echo more >>old; rm gone; mv folder/deep/inner folder/moved
             rmdir empty; mkdir made; chmod 750 made; ln -s new made/link; rm -r folder/deep; chmod 600 kept'
         expect status $? 0
         expect tree "$(tree)" ". ./folder ./folder/moved ./kept ./link ./made ./made/link ./new ./old "
         expect new "$(cat new)" new
         expect old "$(cat old)" "old
more"
         expect moved "$(cat folder/moved)" inner
         expect modes "$(stat -c %a made kept | tr '\\n' ' ')" "750 600 "
         expect owner "$(stat -c %u new)" "$(id -u)"
         """),
    Case("many files are promoted in one go",
         """
         mkdir many; for i in $(seq 60); do echo $i >many/$i; done
         box --commit -- sh -c 'for i in $(seq 1 2 60); do echo changed >many/$i; done; for i in $(seq 2 4 60); do rm many/$i; done'
         expect status $? 0
         expect count "$(ls many | wc -l)" 45
         expect changed "$(grep -l changed many/* | wc -l)" 30
         """),
    Case("a failing command promotes nothing",
         """
         before=$(tree)
         box --commit -- sh -c 'echo bad >kept; rm gone; echo x >new; exit 3'
         expect status $? 3
         expect tree "$(tree)" "$before"
         expect kept "$(cat kept)" kept
         [ ! -e .nexbox ] || { ls -laR .nexbox; exit 97; }
         """),
    Case("without --commit nothing lands and nothing is left",
         """
         before=$(tree)
         box -- sh -c 'echo bad >kept; rm gone; echo x >new; cat kept new'
         expect status $? 0
         expect tree "$(tree)" "$before"
         expect kept "$(cat kept)" kept
         [ ! -e .nexbox ] || { ls -laR .nexbox; exit 97; }
         """, says=("bad\nx\n",)),
    Case("the deadline kills everything",
         """
         box --commit --timeout-ms 700 -- sh -c 'echo x >new; setsid sleep 1234 & sleep 1234'
         expect status $? 124
         ps | grep -v grep | grep 'sleep 1234' && exit 96
         [ ! -e new ] || exit 95
         """, places=ENCLAVE),
    Case("what the command leaves running dies with it",
         """
         box -- sh -c 'setsid sleep 4321 >/dev/null 2>&1 & (setsid sleep 4321 &) ; true'
         expect status $? 0
         ps | grep -v grep | grep 'sleep 4321' && exit 96
         true
         """, places=ENCLAVE),
    Case("a signal ends the run as it would the command", "box -- sh -c 'kill -TERM $$'", status=143, places=ENCLAVE),
    Case("a command that is not there is 127, one that may not run 126",
         """
         box -- no-such-command; expect status $? 127
         box -- ./kept; expect status $? 126
         """, places=ENCLAVE),
    Case("the network is not reachable",
         """
         probe listen $PORT
         expect "bare, the server" "$(probe connect $PORT)" reached
         box -- probe connect $PORT
         """, status=1, never=("reached",), places=ENCLAVE),
    Case("an abstract socket of the host is not reachable",
         """
         probe listen @nxhost$NUMBER
         expect "bare, the socket" "$(probe connect @nxhost$NUMBER)" reached
         box -- probe connect @nxhost$NUMBER
         """, status=1, never=("reached",), places=ENCLAVE),
    Case("what is written outside the workspace does not land",
         """
         echo outside >$PLACE/outside
         sh -c 'echo bare >$PLACE/bare' && rm $PLACE/bare
         box --commit -- sh -c "echo bad >>$PLACE/outside; echo bad >$PLACE/another; echo bad >/var/tmp/nx-$NUMBER; chmod 777 $PLACE/outside; true"
         expect status $? 0
         expect outside "$(cat $PLACE/outside; stat -c %a $PLACE/outside)" "outside
644"
         [ ! -e $PLACE/another ] && [ ! -e /var/tmp/nx-$NUMBER ] || exit 96
         box -- sh -c 'echo bad >$HOME/landed; true'
         [ ! -e $HOME/landed ] || exit 95
         """),
    Case("a secret is not readable",
         """
         expect "bare, the key" "$(cat $HOME/.ssh/id_rsa)" the-secret-key
         box -- sh -c 'cat $HOME/.ssh/id_rsa; cat /proc/1/root$HOME/.ssh/id_rsa; cp -r $HOME/.ssh .; grep -r the-secret . && exit 1; exit 0'
         """, never=("the-secret",), places=ENCLAVE),
    Case("the store is not in the view", "box --commit -- sh -c 'ls -a; ls .nexbox'", status=1, says=("No such file",)),
    Case("the home is a folder like others, and thrown away",
         """
         mkdir -p $HOME/h$NUMBER/deep; echo inner >$HOME/h$NUMBER/deep/inner
         box --json -- sh -euc 'cd $HOME/h'$NUMBER'; echo new >new; cat deep/inner >&2; echo more >>deep/inner
             rm -r deep; mkdir deep; [ -z "$(ls -A deep)" ]; echo again >deep/inner; mv deep moved
             mkdir a; mv a b; rmdir b; ln -s new link; chmod 700 moved; cat moved/inner' >$PLACE/out
         s=$?
         cat $PLACE/out
         expect status $s 0
         expect home "$(cd $HOME/h$NUMBER; find . | sort | tr '\n' ' ')" ". ./deep ./deep/inner "
         expect inner "$(cat $HOME/h$NUMBER/deep/inner)" inner
         """, says=("again",), places=WITH_OVERLAYS),
    Case("a host process is not to be killed",
         """
         sleep 999 & victim=$!
         box -- sh -c "kill -9 $victim; kill -9 -1; true"
         kill -0 $victim || exit 96
         kill -9 $victim
         """, places=SCOPED),
    Case("what the host writes meanwhile is seen",
         """
         mkfifo $PLACE/in $PLACE/out
         for i in 1 2 3; do
             box --commit -- sh -c 'echo go; read line; echo box >old' <$PLACE/in >$PLACE/out 2>$PLACE/err &
             pid=$!; exec 3>$PLACE/in 4<$PLACE/out
             read line <&4; echo "host $i" >old; echo on >&3; exec 3>&- 4<&-
             wait $pid; expect status $? 123
             expect old "$(cat old)" "host $i"
         done
         cat $PLACE/err
         """, says=("old",)),
    Case("what the host replaces meanwhile is seen, by a folder too",
         """
         mkfifo $PLACE/in $PLACE/out
         mkdir $PLACE/other; echo other >$PLACE/other/inner; sleep 0.1
         box --commit -- sh -c 'echo go; read line; echo box >folder/deep/inner' <$PLACE/in >$PLACE/out 2>$PLACE/err &
         pid=$!; exec 3>$PLACE/in 4<$PLACE/out
         read line <&4; mv folder/deep $PLACE/was; mv $PLACE/other folder/deep; echo on >&3; exec 3>&- 4<&-
         wait $pid; expect status $? 123
         expect inner "$(cat folder/deep/inner)" other
         """),
    Case("what the host wrote in the tick before is no drift, and not lost",
         """
         for i in 1 2 3 4 5; do
             echo "host $i" >old
             box --commit -- sh -c 'cat old; echo more >>old'; expect "status $i" $? 0
             expect old "$(cat old)" "host $i
more"
         done
         """, says=("host 5",)),
    Case("an edit of the same size in the tick of the start is seen",
         """
         for i in 1 2 3 4 5; do
             printf AAAA >old
             box --commit -- sh -c 's=${TMPDIR:-/tmp}/stamp; touch -r old $s; printf BBBB >old; touch -r $s old'
             expect "status $i" $? 0
             expect "old $i" "$(cat old)" BBBB
         done
         """),
    Case("a file that the host holds open for writing is a conflict",
         """
         exec 5>>old
         box --commit -- sh -c 'echo box >old'; expect status $? 123
         echo host >&5
         expect old "$(cat old)" "old
host"
         """),
    Case("one run after the other, and a box that is kept",
         """
         box --keep -- sh -c 'echo x >new'; expect status $? 0
         [ -d .nexbox/sessions ] || exit 96
         ls .nexbox/sessions/*/ | grep -x cow && exit 95
         box --commit -- sh -c 'echo y >new'; expect status $? 0
         expect new "$(cat new)" y
         """),
    # ---- what a machine may be like; once for each kernel ----
    Case("no user namespaces, by the sysctl of their number", KNOB, because="max_user_namespaces",
         places=(), before=NO_NAMESPACES[0], after=NO_NAMESPACES[1]),
    Case("no user namespaces for ordinary users, by Debian's sysctl", KNOB, because="unprivileged_userns_clone",
         callers=(USER,), places=(), needs=DEBIAN, before=f"echo 0 >{DEBIAN}", after=f"echo 1 >{DEBIAN}"),
    Case("Debian's sysctl is no matter to root", "box -- echo in-the-box", says=("in-the-box",),
         callers=(ROOT,), places=(), needs=DEBIAN, before=f"echo 0 >{DEBIAN}", after=f"echo 1 >{DEBIAN}"),
    Case("no user namespaces, by AppArmor's restriction", KNOB,
         because="AppArmor.*apparmor_restrict_unprivileged_userns", callers=(USER,), places=(), needs=RESTRICTION,
         before=f"echo 1 >{RESTRICTION}", after=f"echo 0 >{RESTRICTION}"),
    # As Ubuntu 24.04 is installed: there is a profile, so the namespace is made, and is worth nothing.
    Case("user namespaces without capabilities, by AppArmor's restriction", KNOB,
         because="AppArmor.*apparmor_restrict_unprivileged_userns", callers=(USER,), places=(), needs=RESTRICTION,
         before=LOAD, after=UNLOAD),
    Case("AppArmor's restriction is no matter to root", "box -- echo in-the-box", says=("in-the-box",),
         callers=(ROOT,), places=(), needs=RESTRICTION, before=LOAD, after=UNLOAD),
    Case("no mount namespaces left", KNOB, because="max_.*mnt_namespaces", callers=(USER,), places=(),
         before="sysctl -w user.max_mnt_namespaces=0", after="sysctl -w user.max_mnt_namespaces=4096"),
    Case("the network namespace cannot be made", KNOB, because="network.*max_net_namespaces", callers=(USER,),
         places=(), before="sysctl -w user.max_net_namespaces=0", after="sysctl -w user.max_net_namespaces=4096"),
    # ---- control groups of v2: the machine of the other suites has v1 ----
    Case("a limit of memory is the kernel's, in a group of v2",
         f"box --commit --json --memory 64M -- dd if=/dev/zero of=new bs=200M count=1; {NONE_LEFT}", status=137,
         document={"status": 137, "limits_hit": ["memory"], "limits.memory.held_by": "kernel", "committed": False},
         places=(AUTO, NO_TIER), before=GIVE, after=TAKE),
    Case("a limit of processes is the kernel's, in a group of v2",
         f"""box --json --pids 5 -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait'; {NONE_LEFT}""", status=2,
         document={"limits_hit": ["pids"], "limits.pids.limit": 5, "limits.pids.held_by": "kernel"},
         places=(AUTO, NO_TIER), before=GIVE, after=TAKE),
    Case("a share of the processors is the kernel's, in a group of v2",
         f"""
         spin='i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; cut -d " " -f 1 /proc/uptime; exit 0'
         begin=$(cut -d " " -f 1 /proc/uptime); box --json --cpus 0.25 -- sh -c "$spin"; {NONE_LEFT}""",
         document={"status": 0, "limits.cpus.held_by": "kernel"}, places=(AUTO, NO_TIER), before=GIVE, after=TAKE),
    Case("processor time is counted by a group of v2",
         f"box --json --cpu-time 1s -- sh -c 'while :; do :; done'; {NONE_LEFT}", status=137,
         document={"status": 137, "limits_hit": ["cpu-time"], "signal": 9}, places=(AUTO, NO_TIER), before=GIVE, after=TAKE),
    Case("a group that limits itself is not left",
         f"""
         box --memory 64M -- echo in-the-box; expect status $? 125; {NONE_LEFT}""", says=("--memory cannot be enforced",),
         never=("in-the-box",), places=(), callers=(USER,),
         before=GIVE + "; echo 300M >given/leaf/memory.max", after=TAKE),
    Case("where no group is given a limit is refused, or watched with --best-effort",
         f"""
         box --memory 64M -- echo in-the-box; expect status $? 125
         box --best-effort --memory 64M -- dd if=/dev/zero of=/dev/null bs=200M count=20000; expect status $? 137; {NONE_LEFT}""",
         says=("--memory cannot be enforced",), never=("in-the-box",), places=(), callers=(USER,)),
    Case("a workspace in memory",
         """
         box --commit --json -- sh -euc 'rm -r folder; mkdir folder; echo more >>old'; s=$?
         { tree; cat old; } >&2; exit $s
         """, document={"status": 0, "committed": True}, says=(r"empty ./folder ./gone", "more"),
         places=(Place("auto", "tmpfs"),)),
    Case("with the host's network the host's abstract sockets are within reach before Landlock's ABI 6 only",
         """
         probe listen @nxhost$NUMBER
         box --allow-net true -- probe connect @nxhost$NUMBER; s=$?
         if [ $(probe landlock) -ge 6 ]; then expect status $s 1; else expect status $s 0; fi
         """, places=()),
    Case("an overlay that could not hide a folder is refused, where memory takes no attributes",
         """
         probe attributes . && exit 0
         box -- echo in-the-box; expect status $? 125
         """, says=(r"takes no user|takes attributes",), never=("in-the-box",), callers=(USER,),
         places=(Place("overlay", "tmpfs"),)),
    Case("a descriptor from before the first write sees what is written",
         "box -- sh -c 'exec 5<old; echo later >>old; cat <&5'", says=("old\nlater",),
         callers=(USER,), places=(Place("overlay", "ext4"),)),
    Case("the doctor says what works", "nex-box doctor", says=("overlay", "landlock"), places=()),
    Case("the doctor knows what forbids namespaces", "nex-box doctor", status=None, says=("unprivileged_userns_clone",),
         callers=(USER,), places=(), needs=DEBIAN, before=f"echo 0 >{DEBIAN}", after=f"echo 1 >{DEBIAN}"),
    Case("the doctor knows AppArmor's restriction", "nex-box doctor", status=None, says=("apparmor_restrict",),
         callers=(USER,), places=(), needs=RESTRICTION, before=LOAD, after=UNLOAD),
    Case("the stamps of files", "probe stamps x", says=("of 100 pairs",), callers=(USER,), places=()),
)


def rows():
    """Every case at every place, by every caller it is for."""
    for case in TABLE:
        for place in case.places or (AUTO,):
            for caller in case.callers:
                if caller not in place.callers:
                    continue
                row = replace(case, caller=caller, place=place)
                if place.tier == LANDLOCK:
                    before, after = NO_NAMESPACES
                    row = replace(row, before=f"{before}\n{row.before}", after=f"{after}\n{row.after}")
                yield row


CASES = tuple(rows())
