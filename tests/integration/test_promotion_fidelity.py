# SPDX-License-Identifier: MIT OR Apache-2.0
"""Promotion is faithful: a tree with an entry of every kind, changed in every direction.

Each row of CHANGES is run bare on one copy and in a box with --commit on another, at the same path:
everything about every entry must agree, times of what was written "now" aside (and the rows that
set times agree in those to the nanosecond). The same rows, not asked to commit or failing at the
end, must leave everything as it was. Each as an ordinary user and as root.
"""

import errno
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import actor
import pytest
from conftest import assert_nothing_left
from manifest import assert_same, line_in_time, manifest

LONG = "n" * 255
DEEP = "/".join(["d" * 200] * 25)  # 5,024 bytes: far longer than PATH_MAX

# The tree on which the commands work, dated so that an untouched entry can be told.
TREE = r"""
umask 022
mkdir -p files dirs/full/sub dirs/empty dirs/locked links many opaque/deep/er names type mixed/one/two
echo plain > files/plain; echo exec > files/exec; chmod 755 files/exec
echo secret > files/none; chmod 000 files/none
echo ro > files/ro; chmod 444 files/ro
echo group > files/group; chmod 664 files/group
: > files/zero
head -c 300000 /dev/zero | tr '\0' x > files/big
truncate -s 8M files/sparse; printf data | dd of=files/sparse bs=1 seek=4194304 conv=notrunc status=none
echo a > dirs/full/a; echo b > dirs/full/sub/b; chmod 750 dirs/full; chmod 1777 dirs/full/sub
echo in > dirs/locked/in; chmod 555 dirs/locked
ln -s plain links/to-file; ln -s ../dirs/full links/to-dir; ln -s /nonexistent/x links/dangling
ln -s "$(printf %4000s '' | tr ' ' t)" links/longest 
for i in $(seq 60); do echo $i > many/f$i; done
echo 1 > opaque/deep/er/1; echo 2 > opaque/2
echo long > "names/$(printf %255s '' | tr ' ' n)"
printf x > "$(printf 'names/not\377utf8')"; printf x > "$(printf 'names/new\nline')"; printf x > 'names/ back\slash "q" '
for k in a b c d e f; do
	echo file > type/file-$k; mkdir type/dir-$k; echo in > type/dir-$k/in; ln -s file-a type/link-$k; mkfifo type/fifo-$k
done
mkfifo mixed/fifo
echo x > mixed/one/two/three
echo attr > files/attr; setfattr -n user.note -v kept files/attr; setfattr -n user.gone -v removed files/attr
setfattr -n user.on-dir -v kept dirs/full
# An ordinary user's box maps only its own ids: it keeps an ACL that names others, but cannot make one.
echo acl > files/acl; setfacl -m u:daemon:rw files/acl; echo own > files/own-acl; setfacl -m u:$(id -u):rw files/own-acl
setfacl -m d:u:daemon:rx dirs/empty
find . -depth -print0 | xargs -0 touch -h -d '2020-02-02 02:02:02.123456789'
"""

CHANGES = {
    # contents and times
    "a file is rewritten in place": "echo new > files/plain",
    "a file is appended to": "echo more >> files/exec",
    "a file is replaced by rename": "echo new > files/.tmp && mv files/.tmp files/plain",
    "a file is emptied": ": > files/big",
    "a file is truncated and grown": "truncate -s 10 files/big && truncate -s 100000 files/big",
    "an edit of the same size keeps its time": "printf PLAIN > files/plain; printf '\\n' >> files/plain;"
    " touch -d '2020-02-02 02:02:02.123456789' files/plain",
    "a time is set to the nanosecond": "touch -d '2021-03-04 05:06:07.987654321' files/plain",
    "a time before 1970 is set": "touch -d '1960-01-02 03:04:05.5' files/zero",
    "a file is touched": "touch files/plain",
    "a new file is dated": "echo x > files/dated; touch -d '2001-01-01 01:01:01.000000001' files/dated",
    "a sparse file is made": "truncate -s 64M new-sparse && printf end >> new-sparse",
    "a sparse file is written to": "printf X | dd of=files/sparse bs=1 seek=7000000 conv=notrunc status=none",
    "a zero-byte file is made": ": > empty",
    "ten MiB are made": "head -c 10485760 /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 > big-new",
    # modes
    "modes change": "chmod 600 files/plain; chmod 755 files/ro; chmod 000 files/exec; chmod 777 files/big",
    "a file without permissions gets some": "chmod 640 files/none",
    "files are made with every kind of mode": "for m in 000 111 222 444 600 640 666 700 755 777; do"
    " echo $m > m$m; chmod $m m$m; done",
    "the mode of a directory changes": "chmod 700 dirs/full; chmod 1777 dirs/empty; chmod 500 many",
    "the mode of the root changes": "chmod 711 .",
    "a new directory has an odd mode": "mkdir -m 1733 odd; mkdir -m 500 shut",
    "the umask holds": "umask 077; echo x > tight; mkdir tightdir; umask 000; echo x > loose; mkdir loosedir",
    "a file in a read-only directory is edited": "chmod 755 dirs/locked; echo x >> dirs/locked/in;"
    " echo y > dirs/locked/new; chmod 555 dirs/locked",
    "a new read-only tree is made": "mkdir -p ro/a/b; echo x > ro/a/b/c; chmod 444 ro/a/b/c; chmod -R a-w ro",
    "a read-only tree is deleted": "chmod -R u+w dirs/locked; rm -r dirs/locked",
    # extended attributes
    "attributes change": "setfattr -n user.new -v made files/plain; setfattr -n user.note -v changed files/attr;"
    " setfattr -x user.gone files/attr; setfattr -n user.d -v x dirs/empty",
    "an attribute of a directory is removed": "setfattr -x user.on-dir dirs/full",
    "an attribute with binary value is set": "setfattr -n user.bin -v 0x00ff00 files/zero",
    "an ACL is made": "setfacl -m u:$(id -u):r files/plain; setfacl -m g:$(id -g):rwx,d:g:$(id -g):rx dirs/full",
    "an ACL is removed": "setfacl -b files/acl; setfacl -k dirs/empty",
    "a default ACL is inherited": "echo x > dirs/empty/heir; mkdir dirs/empty/heirs",
    "a file with attributes is edited": "echo more >> files/attr; echo more >> files/acl",
    "a file with attributes is copied": "cp -a files/attr files/attr2; cp -a files/own-acl files/acl2; cp -a dirs/full full2",
    # links, FIFOs, sockets
    "symlinks are made": "ln -s plain files/l1; ln -s /etc/passwd l2; ln -s nowhere l3; ln -s . l4",
    "a symlink is changed": "ln -sfn ../files links/to-dir; ln -sf elsewhere links/dangling",
    "a symlink is dated": "touch -h -d '2011-11-11 11:11:11.111111111' links/to-file",
    "the longest symlink is made": 'ln -s "$(printf %4095s "" | tr " " t)" links/newlong',
    "a symlink to a directory is deleted": "rm links/to-dir",
    "FIFOs are made": "mkfifo -m 620 pipe; mkfifo dirs/full/pipe; touch -d '2010-01-01' pipe",
    "a FIFO is deleted and another changed": "rm type/fifo-a; chmod 640 mixed/fifo",
    "a socket is made": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'",
    "hard links among new files": "mkdir hl; echo x > hl/a; ln hl/a hl/b; ln hl/a c; ln -s hl/b hl/s; ln hl/s hl/s2",
    "hard links among new files in two groups": "for g in 1 2; do echo $g > g$g; for n in a b c; do ln g$g g$g$n; done; done",
    "a hard link is made and one name deleted": "echo x > p; ln p q; rm p",
    # names
    "names of 255 bytes": f"echo x >> names/{LONG}; echo y > {LONG}; mkdir {LONG[:-1]}d; echo z > {LONG[:-1]}d/{LONG}",
    "names that are not UTF-8": "printf y >> \"$(printf 'names/not\\377utf8')\"; : > \"$(printf '\\200\\376')\";"
    " mkdir \"$(printf 'dir\\300')\"; : > \"$(printf 'dir\\300/in')\"",
    "names with newlines and blanks": "printf y >> \"$(printf 'names/new\\nline')\"; : > \"$(printf 'a\\n\\tb')\"; : > ' '; : > '*'; : > -- ; : > ./-rf",
    "names are deleted": "rm -r names",
    "names look like markers": "echo x > .wh.plain; mkdir .wh.dir; echo y > files/.wh..wh..opq",
    "a path longer than PATH_MAX is made": f"python3 -c 'import os\nfor d in \"{DEEP}\".split(\"/\"):\n os.mkdir(d); os.chdir(d)\nopen(\"bottom\", \"w\").write(\"x\")'",
    # directories
    "empty directories are made": "mkdir -p e1 e2/e3/e4",
    "an empty directory is deleted": "rmdir dirs/empty",
    "a tree is deleted": "rm -r many opaque",
    "everything is deleted": "chmod -R u+rwx dirs; find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +",
    "half of a directory is deleted": "rm many/f1* many/f4?; echo x > many/new",
    "a directory is made anew with other contents": "rm -r opaque && mkdir opaque && echo new > opaque/only",
    "a directory is made anew, empty": "rm -r many && mkdir many",
    "a directory is made anew with a mode and a time": "rm -r opaque && mkdir -m 750 opaque && touch -d '2012-12-12 12:12:12.5' opaque",
    "a deep directory is made anew within one that stays": "rm -r opaque/deep && mkdir opaque/deep && echo x > opaque/deep/new",
    "a directory is made anew twice": "rm -r opaque; mkdir -p opaque/deep; echo 1 > opaque/deep/1; rm -r opaque/deep; mkdir opaque/deep",
    "a directory is renamed": "mv opaque renamed",
    "a directory is renamed and edited": "mv many moved && echo x > moved/new && rm moved/f1 && echo y >> moved/f2",
    "a directory is renamed into another": "mv opaque dirs/full/",
    "directories swap names": "mv many tmp && mv opaque many && mv tmp opaque",
    "a directory is renamed away and another takes its name": "mv many old && mkdir many && echo x > many/f1",
    "a directory is renamed there and back": "mv opaque x && mv x opaque",
    "a file is renamed": "mv files/plain files/renamed; mv files/exec dirs/full/",
    "a file is renamed over another": "mv files/plain files/exec",
    "a name changes its case": "mv files/plain files/PLAIN; mv opaque OPAQUE",
    "a directory is dated": "touch -d '2013-03-03 03:03:03.333333333' dirs/full mixed; echo x > mixed/new; touch -d '2014-04-04 04:04:04.4' mixed",
    # changes of type, in every direction
    "a file becomes something else": "cd type; rm file-b file-c file-d; mkdir file-b; echo x > file-b/in; ln -s x file-c; mkfifo file-d",
    "a directory becomes something else": "cd type; rm -r dir-b dir-c dir-d; echo x > dir-b; ln -s file-a dir-c; mkfifo dir-d",
    "a symlink becomes something else": "cd type; rm link-b link-c link-d; echo x > link-b; mkdir link-c; echo x > link-c/in; mkfifo link-d",
    "a FIFO becomes something else": "cd type; rm fifo-b fifo-c fifo-d; echo x > fifo-b; mkdir fifo-c; ln -s x fifo-d",
    "a full tree becomes a link to its copy": "cp -a many copy && rm -r many && ln -s copy many",
    "a file becomes a directory of the same content": "mv files/plain p && mkdir files/plain && mv p files/plain/plain",
    # many things at once
    "a tree is unpacked from an archive": "tar -cf a.tar --exclude=a.tar files/exec files/big dirs links many && rm -rf many"
    " && mkdir out && tar -C out -xpf a.tar && rm a.tar",
    "sed edits many files in place": "sed -i 's/^/x/' many/*",
    "a thousand files are made": "mkdir k; for i in $(seq 1000); do echo $i > k/$i; done",
    "nothing happens": ":",
    "the same bytes are written again": "cat files/big > t && cat t > files/big && rm t",
}

TOOLS = ("setfattr", "setfacl", "openssl", "python3")


@pytest.fixture(scope="module", autouse=True)
def tools_are_there():
    missing = [t for t in TOOLS if subprocess.run(["which", t], capture_output=True).returncode]
    assert not missing, f"install {missing} (tools/check does)"


@pytest.fixture(scope="module")
def template():
    """template(owner): the tree, made once for each user."""
    base = Path(tempfile.mkdtemp(prefix="nexbox-test.", dir=os.environ.get("NEXBOX_TEST_DIR", "/var/tmp")))
    base.chmod(0o755)
    made = {}

    def make(owner):
        if owner.name not in made:
            folder = made[owner.name] = base / owner.name
            folder.mkdir()
            os.chown(folder, owner.uid, owner.gid)
            owner.check(["sh", "-euc", TREE], cwd=folder)
            bind = "import socket; socket.socket(socket.AF_UNIX).bind('mixed/socket')"
            owner.check(["/usr/bin/python3", "-c", bind], cwd=folder)
            for late in (folder / "mixed", folder):
                os.utime(late, ns=(10**18, 10**18))
        return made[owner.name]

    yield make
    subprocess.run(["rm", "-rf", base], check=True)


@pytest.fixture
def tree(place, template):
    """place.lay_tree() makes the workspace anew; copies keep everything, so each starts equal."""
    source = template(place.owner)
    place.lay_tree = lambda: subprocess.run(["cp", "-a", "--", source, place.ws], check=True)
    return place


# What is no entry of the changeset. A time alone is none, and yet it arrives: make looks at it.
NO_CHANGES = (
    "nothing happens",
    "a directory is renamed there and back",
    "a time is set to the nanosecond",
    "a time before 1970 is set",
    "a file is touched",
    "a symlink is dated",
    "the same bytes are written again",
)


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_promoted_is_what_the_command_would_have_left(tree, bare_and_boxed, change):
    pair = bare_and_boxed(tree, tree.lay_tree, ["sh", "-euc", CHANGES[change]])
    assert pair.bare.returncode == 0, pair.bare.stderr
    pair.assert_agreement()
    assert pair.boxed["committed"] is True
    changed = change not in NO_CHANGES
    assert pair.boxed["commit"]["status"] == ("promoted" if changed else "nothing")
    assert bool(pair.boxed["diff"]["entries"]) is changed


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["without --commit", "with --commit and a failing command"])
def test_what_is_not_promoted_leaves_everything_as_it_was(tree, run_box, change, way):
    tree.lay_tree()
    before = manifest(tree.ws)
    if way == "without --commit":
        options, command, status, said = [], CHANGES[change], 0, "not-asked"
    else:
        options, command, status, said = ["--commit"], f"({CHANGES[change]}); exit 9", 9, "command-failed"
    boxed = run_box(options, ["sh", "-euc", command], owner=tree.owner, cwd=tree.ws)
    assert boxed.status == status, boxed.err
    assert (boxed["committed"], boxed["commit"]["status"]) == (False, said)
    assert_same(before, manifest(tree.ws))
    assert_nothing_left(tree)


def blocks(path):
    return os.stat(path).st_blocks * 512


def test_sparse_files_stay_sparse(tree, run_box):
    tree.lay_tree()
    command = "truncate -s 512M new && printf end >> new && printf X | dd of=files/sparse bs=1 seek=7000000 conv=notrunc status=none"
    boxed = run_box(["--commit"], ["sh", "-euc", command], owner=tree.owner, cwd=tree.ws)
    assert boxed.status == 0, boxed.err
    assert os.path.getsize(tree.ws / "new") == (512 << 20) + 3
    assert blocks(tree.ws / "new") < 1 << 20
    assert blocks(tree.ws / "files/sparse") < 3 << 20  # of 8; the kernel's copy-up goes by MiB


def test_no_private_attribute_of_the_layers_reaches_the_host(tree, run_box):
    tree.lay_tree()
    everything = " ; ".join(f"({c})" for c in CHANGES.values() if "everything" not in c and "-exec rm" not in c)
    boxed = run_box(["--commit"], ["sh", "-uc", f"{everything}; :"], owner=tree.owner, cwd=tree.ws)
    assert boxed.status == 0, boxed.err
    assert boxed["commit"]["status"] == "promoted", boxed["commit"]
    strange = [
        (path, name)
        for path, entry in manifest(tree.ws).items()
        for name, _ in entry.xattrs
        if "overlay" in str(name)
    ]
    assert not strange
    whiteouts = [path for path, entry in manifest(tree.ws).items() if entry.kind == "device"]
    assert not whiteouts


@pytest.mark.parametrize("answer", [errno.ENOSYS, errno.EPERM], ids=["old-kernel", "filter"])
def test_attributes_go_their_old_way_where_there_are_no_calls_for_them(tree, answer, nexbox):
    program = tree.folder / "older_calls"
    source = Path(__file__).with_name("older_calls.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    change = "echo new > files/attr; setfattr -x user.gone files/attr; setfattr -n user.made -v 2 files/attr;" \
        " setfattr -n user.on-dir -v new dirs/full; setfattr -n user.alone -v 1 files/exec; ln -sfn plain links/to-file"
    trees = []
    for argv in (["sh", "-euc", change], [str(program), str(answer), nexbox, "run", "--commit", "--", "sh", "-euc", change]):
        tree.lay_tree()
        since = line_in_time(tree.folder)
        done = tree.owner.run(argv, cwd=tree.ws)
        assert done.returncode == 0, done.stderr
        trees.append(manifest(tree.ws, since=since))
        tree.put_away(f"was-{len(trees)}")
    assert_same(*trees)
    assert dict(trees[1][b"files/attr"].xattrs).keys() == {"user.note", "user.made"}


def test_a_second_run_on_what_the_first_promoted_sees_it_and_promotes_on_top(tree, run_box):
    tree.lay_tree()
    first = "rm -r opaque && mkdir opaque && echo 1 > opaque/new; mv many moved; echo x > files/plain"
    second = "cat opaque/new moved/f1 files/plain; test ! -e many; rm moved/f1; echo y >> opaque/new; mv moved many"
    for command, out in (first, b""), (second, b"1\n1\nx\n"):
        boxed = run_box(["--commit"], ["sh", "-euc", command], owner=tree.owner, cwd=tree.ws)
        assert (boxed.status, boxed.out) == (0, out), boxed.err
    assert (tree.ws / "opaque/new").read_text() == "1\ny\n"
    assert not (tree.ws / "moved").exists() and not (tree.ws / "many/f1").exists()
    assert (tree.ws / "many/f2").read_text() == "2\n"


def test_a_directory_that_has_no_write_permission_is_promoted_with_what_is_new_in_it(tree, run_box):
    tree.lay_tree()
    command = "chmod u+w dirs/locked && echo new > dirs/locked/new && chmod u-w dirs/locked"
    boxed = run_box(["--commit"], ["sh", "-euc", command], owner=tree.owner, cwd=tree.ws)
    assert boxed.status == 0, boxed.err
    info = os.stat(tree.ws / "dirs/locked")
    assert stat.S_IMODE(info.st_mode) == 0o555
    assert (tree.ws / "dirs/locked/new").read_text() == "new\n"


def test_root_gives_files_away_and_the_owner_is_promoted(new_place, needs_root, template, bare_and_boxed):
    place = new_place(actor.lookup("root"))
    source = template(place.owner)

    def lay():
        subprocess.run(["cp", "-a", "--", source, place.ws], check=True)

    command = "chown 1:2 files/plain; chown -h 3:4 links/to-file; chown 5:6 dirs/full; echo x > n; chown 7:8 n"
    pair = bare_and_boxed(place, lay, ["sh", "-euc", command])
    pair.assert_agreement()


def test_the_changeset_names_what_changed_and_nothing_else(tree, run_box):
    tree.lay_tree()
    command = (
        "echo x > new; echo y >> files/plain; rm files/ro; chmod 700 files/exec; touch -d 2015-05-05 files/big;"
        " rm type/file-a; mkdir type/file-a; cat files/group >/dev/null; rm -r opaque; ln -sf other links/dangling;"
        " setfattr -n user.x -v y files/zero; mkdir newdir"
    )
    boxed = run_box([], ["sh", "-euc", command], owner=tree.owner, cwd=tree.ws)
    assert boxed.status == 0, boxed.err
    found = {
        (e["path"], e["kind"], ",".join(sorted(set(e.get("what", [])) - {"mtime"})) or "mtime" if e["kind"] == "modified" else "")
        for e in boxed["diff"]["entries"]
    }
    assert found == {
        ("new", "created", ""), ("newdir", "created", ""),
        ("files/plain", "modified", "content"), ("files/exec", "modified", "mode"),
        ("files/zero", "modified", "xattr"),
        ("links/dangling", "modified", "target"),
        ("files/ro", "deleted", ""), ("type/file-a", "type-changed", ""),
        ("opaque", "deleted", ""), ("opaque/2", "deleted", ""), ("opaque/deep", "deleted", ""),
        ("opaque/deep/er", "deleted", ""), ("opaque/deep/er/1", "deleted", ""),
    }  # fmt: skip
    assert boxed["diff"]["files_created"] == ["new", "newdir"]
    assert boxed["diff"]["files_modified"] == sorted(
        ["files/plain", "files/exec", "files/zero", "links/dangling", "type/file-a"]
    )
    assert boxed["diff"]["files_deleted"] == sorted(
        ["files/ro", "opaque", "opaque/2", "opaque/deep", "opaque/deep/er", "opaque/deep/er/1"]
    )
