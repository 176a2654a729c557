# SPDX-License-Identifier: MIT OR Apache-2.0
"""What commands do to a tree: the table of the integration suite, and what tells strategies apart."""

from test_promotion_fidelity import CHANGES, DEEP, TREE

# On top of the integration suite's tree: files with several names, a repository, names that layers use.
MORE_TREE = r"""
umask 022
mkdir -p hard same move/in/deep move/empty move/full
echo one > hard/a; ln hard/a hard/b; echo two > hard/x; ln hard/x hard/y; ln hard/x dirs/full/z
echo alone > hard/alone; ln -s a hard/s; ln hard/s hard/s2
printf 12345678 > same/size; head -c 20000 /dev/zero | tr '\0' m > same/map; cp same/size same/twin
echo 1 > move/in/deep/f; echo 2 > move/in/g; echo x > move/full/x
echo .wh > .wh.ro; echo .wh > files/.wh..wh..opq; mkdir .wh.full; echo x > .wh.full/in
git init -q --template= repo; cd repo; git config user.email a@example.org; git config user.name a; echo 1 > tracked
git add tracked; git commit -q -m first; cd ..
find hard same move repo .wh.ro .wh.full files/.wh..wh..opq -depth -print0 |
	xargs -0 touch -h -d '2020-02-02 02:02:02.123456789'
"""

MORE = {
    # edits that hide
    "an edit of the same size gets its old time back": "T=$(mktemp); touch -r same/size $T; printf 87654321 > same/size; touch -r $T same/size; rm $T",
    "one byte is written in place, its time put back": "T=$(mktemp); touch -r same/map $T; printf X | dd of=same/map bs=1 seek=9999"
    " conv=notrunc status=none; touch -r $T same/map; rm $T",
    "a file is written through a mapping": "python3 -c 'import mmap; f = open(\"same/map\", \"r+b\");"
    " m = mmap.mmap(f.fileno(), 0); m[5000:5005] = b\"other\"; m.flush(); m.close()'",
    "a file is written through a mapping that is never flushed": "python3 -c 'import mmap, os; f = open(\"same/map\", \"r+b\");"
    " m = mmap.mmap(f.fileno(), 0); m[5000:5005] = b\"other\"; os._exit(0)'",
    "a file is written through a mapping, its time put back": "T=$(mktemp); touch -r same/map $T; python3 -c 'import mmap, os;"
    " f = open(\"same/map\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[5000:5005] = b\"other\"; os._exit(0)'; touch -r $T same/map; rm $T",
    "a file is rewritten right after the host wrote it": "printf 22222222 > same/size",
    "a file is rewritten by rename right after the host wrote it": "printf 22222222 > same/t; mv same/t same/size",
    "a file is written by a process that outlives the shell": "(sleep 0.05; echo late >> files/plain) & wait",
    "a file is written through an old descriptor after its name went": "exec 3>>files/plain; rm files/plain; echo x >&3; echo new > files/plain",
    "the same bytes are written in place": "printf 12345678 > same/size",
    "a file is replaced by its own copy": "cp -a files/plain t; mv t files/plain",
    "a folder is replaced by its own copy": "cp -a many m2; rm -r many; mv m2 many",
    "a mode is changed and changed back": "chmod 600 files/plain; chmod 644 files/plain",
    "an attribute is set and removed": "setfattr -n user.t -v x files/plain; setfattr -x user.t files/plain",
    "a file is removed and made again": "T=$(mktemp); cp -p files/plain $T; rm files/plain; cp -p $T files/plain; rm $T",
    "a file is renamed there and back": "mv files/plain t; mv t files/plain",
    "two files of equal content swap": "mv same/size t; mv same/twin same/size; mv t same/twin",
    # space
    "space is allocated": "fallocate -l 1M files/plain",
    "a hole is punched": "fallocate -p -o 4096 -l 8192 files/big",
    "a file is made of holes": "truncate -s 40M holes; printf x | dd of=holes bs=1 seek=20000000 conv=notrunc status=none",
    "a file is cut to nothing and filled again": ": > same/map; head -c 20000 /dev/zero | tr '\\0' n > same/map",
    "a file is cloned": "cp --reflink=auto files/big big2; cp --reflink=auto --sparse=always files/sparse sparse2",
    "a file without a name gets one": "python3 -c 'import os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR, 0o640); os.write(f, b\"x\");"
    " import ctypes; assert ctypes.CDLL(None).linkat(-100, b\"/proc/self/fd/%d\" % f, -100, b\"named\", 0x400) == 0'",
    # modes
    "a file and a folder are closed to everybody": "chmod 000 files/plain dirs/full",
    "a folder is closed after something was made in it": "echo x > dirs/full/new; mkdir -m 700 dirs/full/newdir; echo y > dirs/full/newdir/in; chmod 000 dirs/full",
    "a closed folder is made, with something in it": "mkdir shut; echo x > shut/in; chmod 000 shut/in shut",
    "every file gets another mode": "chmod +x many/*",
    # links
    "an old file gets a second name": "ln files/plain files/plain2",
    "an old file gets a second name and loses the first": "ln files/plain q; rm files/plain",
    "one of two names is edited in place": "echo more >> hard/a",
    "one of two names gets another mode": "chmod 600 hard/a",
    "one of two names is dated": "touch -d '2015-05-05' hard/a",
    "one of two names is replaced": "echo new > t; mv t hard/a",
    "one of two names is removed": "rm hard/b",
    "both names are removed": "rm hard/a hard/b",
    "three names are removed": "rm hard/x hard/y dirs/full/z",
    "two names get a third": "ln hard/a third",
    "two names are unlinked from one another": "cp -p hard/a t; mv t hard/a",
    "a folder with linked files is renamed": "mv hard soft",
    "a folder with linked files is removed": "rm -r hard",
    "a linked symlink is replaced": "ln -sfn other hard/s",
    "symlinks lead out, up and nowhere": "ln -s /etc/passwd o1; ln -s ../../../../etc o2; ln -s files/../.. o3; ln -s ./files/../hard o4; ln -s nowhere/at/all o5",
    "a symlink takes the place of a file, and a file of a symlink": "rm files/plain; ln -s big files/plain; rm links/to-file; echo x > links/to-file",
    # moves
    "a folder is renamed over an empty one": "mv -T move/in move/empty",
    "a new folder is renamed": "mkdir n1; echo x > n1/f; mv n1 n2",
    "a new folder is renamed into an old one": "mkdir n1; echo x > n1/f; mv n1 move/full/",
    "a file moves into a new folder": "mkdir n1; mv files/plain n1/",
    "a folder is renamed by rename(2)": "python3 -c 'import os; os.rename(\"move/in\", \"move/out\")'",
    "two files swap": "mv files/plain t; mv files/exec files/plain; mv t files/exec",
    "two files are exchanged by renameat2(2)": "python3 -c 'import ctypes; c = ctypes.CDLL(None);"
    " assert c.renameat2(-100, b\"files/plain\", -100, b\"files/big\", 2) == 0'",
    "two folders are exchanged by renameat2(2)": "python3 -c 'import ctypes; c = ctypes.CDLL(None);"
    " assert c.renameat2(-100, b\"move\", -100, b\"same\", 2) == 0'",
    "logs rotate": "for i in 3 2 1; do mv many/f$i many/f$((i+1)); done; : > many/f1",
    # much
    "two thousand files are made": "python3 -c 'import os; os.mkdir(\"k\"); [open(f\"k/{i}\", \"w\").write(str(i)) for i in range(2000)]'",
    "two thousand files are removed": "rm -r dup",
    "two thousand files are written": "python3 -c '[open(f\"dup/{i}\", \"w\").write(str(i)) for i in range(1, 2001)]'",
    "one of two thousand is written": "echo x > dup/777",
    "a deep folder is made and a deep one removed": "mkdir -p a/b/c/d/e/f/g; echo x > a/b/c/d/e/f/g/h; rm -rf repo",
    "a database is made": "python3 -c 'import sqlite3; c = sqlite3.connect(\"db\"); c.execute(\"create table t(a)\");"
    " c.executemany(\"insert into t values (?)\", [(i,) for i in range(100)]); c.commit(); c.close()'",
    "git commits": "cd repo; echo 2 > tracked; GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'"
    " git commit -q -am second; rm .git/index",  # which holds inodes and change times
    # names that mean something to layers, and to nex-box
    "names of layers are edited": "echo x >> .wh.ro; rm -r .wh.full; echo y > files/.wh..wh..opq; echo z > .wh.new",
    "a file beside a name of layers is removed": "rm files/plain files/.wh..wh..opq",
    "a store is made": "mkdir -p .nexbox/sessions/x .nexbox/history; echo x > .nexbox/x; echo '!*' > .nexbox/.gitignore",
    # deep
    "a tree deeper than any path is edited": "python3 -c 'import os\nfor d in \"DEEP\".split(\"/\"): os.chdir(d)\n"
    "open(\"bottom\", \"a\").write(\"y\"); os.mkdir(\"new\"); os.unlink(\"other\")'",
    "a tree deeper than any path is removed": "rm -rf ddd*",
    "nothing happens to a tree deeper than any path": ":",
    # owners
    "a file is given to the group it has": "chgrp $(id -g) files/plain; chown -h $(id -u) links/to-file",
    "files are given away": "chown 1:2 files/plain; chown -h 3:4 links/to-file; chown 5:6 dirs/full; echo x > n; chown 7:8 n",
    "a file is given away and back": "chown 1:2 files/plain; chown $(id -u):$(id -g) files/plain",
    "everything is given away": "chown -hR 1:2 files links many",
}

DEEP_TREE = (
    "python3 -c 'import os\nfor d in \"DEEP\".split(\"/\"):\n os.mkdir(d); os.chdir(d)\n"
    "for n in \"bottom\", \"other\": open(n, \"w\").write(\"x\")'"
)

MANY = "python3 -c 'import os; os.mkdir(\"dup\"); [os.close(os.open(f\"dup/{i}\", os.O_CREAT)) for i in range(1, 2001)]'"

# What is done on the host just before, as the owner; part of the tree before.
BEFORE = {
    "a file is rewritten right after the host wrote it": "printf 11111111 > same/size",
    "a file is rewritten by rename right after the host wrote it": "printf 11111111 > same/size",
}
BEFORE.update(dict.fromkeys(("two thousand files are removed", "two thousand files are written", "one of two thousand is written"), MANY))
BEFORE.update({command: DEEP_TREE for command in MORE if "deeper than any path" in command})

ROOT_ONLY = {"files are given away", "a file is given away and back", "everything is given away"}

# The target of a symlink has 1,023 bytes at the most on xfs.
COMMANDS = {command: script.replace("DEEP", DEEP).replace("%4095s", "%1023s") for command, script in {**CHANGES, **MORE}.items()}
BEFORE = {command: script.replace("DEEP", DEEP) for command, script in BEFORE.items()}
FULL_TREE = TREE.replace("%4000s", "%1000s") + MORE_TREE


# A program's own word for "deleted": a workspace with such a name in its root is refused.
LAYER_NAMES = ".wh.ro .wh.full files/.wh..wh..opq"
WITHOUT_LAYER_NAMES = f"rm -r {LAYER_NAMES}"
ABOUT_LAYER_NAMES = {"names of layers are edited", "a file beside a name of layers is removed"}


def has_layer_names(cell):
    return cell.strategy != "fuse-overlayfs"


def suits(cell, command):
    if command in ABOUT_LAYER_NAMES and not has_layer_names(cell):
        return False
    return cell.caller == "root" or command not in ROOT_ONLY
