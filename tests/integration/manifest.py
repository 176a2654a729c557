# SPDX-License-Identifier: MIT OR Apache-2.0
"""Everything about every entry of a tree, as a value that can be compared.

Two trees made by the same commands at different moments agree in all but the times of what was
written. So a time stamp at or after a line drawn just before the commands counts as "now", and
every older one has to agree to the nanosecond: an entry that was not written keeps its time, an
entry that was written does not keep an old one.

The walk goes by descriptors and never follows a link, so that it sees names of any bytes, at any
depth, whatever their modes.
"""

import hashlib
import os
import stat
import time
from dataclasses import astuple, dataclass

STORE = b".nexbox"
KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True)
class Entry:
    kind: str
    mode: str
    uid: int
    gid: int
    size: int  # of files and links; 0 for the rest
    mtime: object  # ns, "now", or None if left out
    links: int  # names of the inode, 0 for a directory
    twin: bytes  # the first name of the inode within the tree, b"" if it is this one
    xattrs: tuple
    content: object  # sha256 of a file, target of a link


def line_in_time(directory):
    """A stamp of @directory's filesystem: later than all before the call, not later than what follows."""
    probe = os.path.join(directory, f".line-{os.getpid()}")
    stamps = set()
    while len(stamps) < 2:  # clocks of files tick every few ms only
        with open(probe, "w"):
            stamps.add(os.stat(probe).st_mtime_ns)
        os.unlink(probe)
        time.sleep(0.001)
    return max(stamps)


def _content(dir_fd, name, info, rewrite):
    if stat.S_ISLNK(info.st_mode):
        return os.readlink(name, dir_fd=dir_fd)
    if not stat.S_ISREG(info.st_mode):
        return None
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME, dir_fd=dir_fd)
    except PermissionError:
        return "unreadable"
    with open(fd, "rb") as file:
        data = file.read()
    return hashlib.sha256(rewrite(data) if rewrite else data).hexdigest()


def _xattrs(dir_fd, name):
    path = os.path.join(b"/proc/self/fd/%d" % dir_fd, name)
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return tuple(sorted((n, os.getxattr(path, n, follow_symlinks=False)) for n in names))
    except OSError as error:
        return (("unreadable", error.errno),)


def manifest(root, *, since=None, no_mtime=(), skip=(), rewrite=None):
    """Map every path below @root (b"." is the root itself) to its Entry; the store is left out.

    @since:    stamps at or after this one read "now" (see line_in_time)
    @no_mtime: paths (str or bytes) whose time is left out
    @skip:     paths that are left out altogether, with what lies below
    @rewrite:  {path: function of bytes} for files that hold a time or a pid: what is left of the
               content is compared, their size is not
    """
    rewrite = {os.fsencode(path): function for path, function in (rewrite or {}).items()}
    no_mtime = {os.fsencode(path) for path in no_mtime}
    skip = {os.fsencode(path) for path in skip} | {STORE}
    tree, first_name = {}, {}

    def take(dir_fd, name, path):
        info = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        kind = KINDS[stat.S_IFMT(info.st_mode)]
        mtime = info.st_mtime_ns
        if path in no_mtime:
            mtime = None
        elif since is not None and mtime >= since:
            mtime = "now"
        is_dir = kind == "directory"
        twin = b"" if is_dir else first_name.setdefault((info.st_dev, info.st_ino), path)
        tree[path] = Entry(
            kind=kind,
            mode=oct(stat.S_IMODE(info.st_mode)),
            uid=info.st_uid,
            gid=info.st_gid,
            size=info.st_size if kind in ("file", "symlink") and path not in rewrite else 0,
            mtime=mtime,
            links=0 if is_dir else info.st_nlink,
            twin=b"" if twin == path else twin,
            xattrs=_xattrs(dir_fd, name),
            content=_content(dir_fd, name, info, rewrite.get(path)),
        )
        if is_dir:
            descend(dir_fd, name, path)

    def descend(dir_fd, name, path):
        try:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=dir_fd)
        except PermissionError:
            return  # pytest is no root: its mode says enough
        try:
            for child in sorted(map(os.fsencode, os.listdir(fd))):
                below = child if path == b"." else path + b"/" + child
                if below not in skip:
                    take(fd, child, below)
        finally:
            os.close(fd)

    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        take(root_fd, b".", b".")
    finally:
        os.close(root_fd)
    return tree


def differences(want, got):
    """What tells two manifests apart, one line an entry, empty when nothing does."""
    lines = []
    for path in sorted(want.keys() | got.keys()):
        a, b = want.get(path), got.get(path)
        if a == b:
            continue
        shown = repr(path if len(path) < 300 else path[:100] + b"..." + path[-100:])
        if a is None or b is None:
            lines.append(f"{shown}: only in the {'second' if a is None else 'first'} tree ({(a or b).kind})")
            continue
        names = Entry.__dataclass_fields__
        parts = [f"{n} {x!r} / {y!r}"[:400] for n, x, y in zip(names, astuple(a), astuple(b)) if x != y]
        lines.append(f"{shown}: " + ", ".join(parts))
    return lines


def assert_same(want, got, what="the trees differ"):
    found = differences(want, got)
    assert not found, f"{what} ({len(found)} entries):\n  " + "\n  ".join(found[:25])
