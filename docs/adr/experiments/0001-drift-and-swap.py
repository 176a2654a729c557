#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiment of ADR 0001: which method sees which host change, and can a swap be taken back?

    docs/adr/experiments/0001-drift-and-swap.py [FOLDER]

FOLDER (default: a new one in /var/tmp) decides the filesystem. Started by root
it runs twice: as the user nxtester with the overlay of a user namespace
(userxattr), then as root with the overlay of the initial one (redirect_dir).
A box is a child with its own namespaces and an overlay over the workspace, whose
upper lies in .nexbox/ below the same workspace.

Methods, each asked after the box is dead, for a path of its changeset:
  ctime   the workspace's file has ctime >= T0, the line drawn at the box's start
  handle  the upper's overlay.origin is not name_to_handle_at() of the host's
          file, or the same for the folder above it
  view    st_ino in the view is not that of the host's file: as long as overlay
          has the dentry it says which lower inode it took. Asked of the file
          (when it is the upper's own number, overlay has forgotten) and of the
          folder. The view is kept alive by an O_PATH descriptor of its root.
  links   a folder on the way and the folder above it both have ctime >= T0: the
          name may have been given to another folder. Never misses, may err
  mtime   what people use: the workspace's file is newer than the box's start
Verdict of what ADR 0001 decides: ctime, or links together with handle or view.
"""
import ctypes
import os
import pwd
import shutil
import stat
import statistics
import struct
import sys
import tempfile
import time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_EXCHANGE = -100, 2
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def checked(result, what):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def exchange(a, b):
    checked(libc.renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), RENAME_EXCHANGE), "exchange")


def host_handle(path):
    """(type, bytes) of name_to_handle_at()"""
    buffer = ctypes.create_string_buffer(8 + 128)
    struct.pack_into("Ii", buffer, 0, 128, 0)
    mount = ctypes.c_int()
    checked(libc.name_to_handle_at(AT_FDCWD, os.fsencode(path), buffer, ctypes.byref(mount), 0), "handle")
    size, kind = struct.unpack_from("Ii", buffer)
    return kind, buffer.raw[8:8 + size]


def origin_handle(path):
    """(type, bytes) that overlay wrote: struct ovl_fb {version, magic, len, flags, type, uuid[16], fid[]}"""
    raw = b""
    for name in os.listxattr(path, follow_symlinks=False):
        if name.endswith(".overlay.origin"):
            raw = os.getxattr(path, name, follow_symlinks=False)
    if len(raw) < 21 or raw[1] != 0xfb:
        return None
    return raw[4], raw[21:raw[2]]


def draw_line(store):
    """T0: every earlier change of this filesystem has ctime < T0, every later one >= T0."""
    fd = os.open(os.path.join(store, "line"), os.O_RDWR | os.O_CREAT, 0o600)
    os.fstat(fd)
    os.utime(fd)
    t0 = os.fstat(fd).st_ctime_ns
    os.close(fd)
    return t0


class Box:
    """The view, and a process in it that does one thing at a time."""

    def __init__(self, workspace):
        self.store = os.path.join(workspace, ".nexbox")
        self.upper, self.work = os.path.join(self.store, "upper"), os.path.join(self.store, "work")
        for path in (self.store, self.upper, self.work):
            os.mkdir(path)
        self.t0, self.t0_wall = draw_line(self.store), time.time_ns()
        down, up = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(down[1])
            os.close(up[0])
            self.serve(workspace, down[0], up[1])
        os.close(down[0])
        os.close(up[1])
        self.down, self.up = down[1], up[0]
        self.answer()
        self.view = os.open(f"/proc/{self.pid}/root{workspace}", os.O_PATH | os.O_DIRECTORY)

    def serve(self, workspace, down, up):
        try:
            uid, gid = os.geteuid(), os.getegid()
            options = (f"lowerdir={workspace},upperdir={self.upper},workdir={self.work},"
                       "volatile,metacopy=off,index=off,nfs_export=off")
            if uid == 0:
                checked(libc.unshare(CLONE_NEWNS), "unshare")
                checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private")
                options += ",redirect_dir=on"
            else:
                checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
                for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                                   ("gid_map", f"{gid} {gid} 1")):
                    with open(f"/proc/self/{name}", "w") as file:
                        file.write(text)
                options += ",userxattr"
            checked(libc.mount(b"overlay", os.fsencode(workspace), b"overlay", 0, options.encode()), "mount")
            os.chdir(workspace)
            os.write(up, b"+")
            while True:
                line = os.read(down, 4096).decode()
                if not line:
                    os._exit(0)
                verb, path = line.split(" ", 1)
                getattr(self, "do_" + verb)(path)
                os.write(up, b"+")
        except BaseException as error:
            print("box:", error, file=sys.stderr)
            os._exit(1)

    def do_read(self, path):
        with open(path, "rb") as file:
            file.read()

    def do_append(self, path):
        with open(path, "ab") as file:
            file.write(b"box\n")

    def do_write(self, path):
        with open(path, "wb") as file:
            file.write(b"box\n")

    def do_rename(self, path):
        self.do_write(path + ".tmp")
        os.rename(path + ".tmp", path)

    def do_remove(self, path):
        os.unlink(path)

    def do(self, verb, path):
        os.write(self.down, f"{verb} {path}".encode())
        self.answer()

    def answer(self):
        if os.read(self.up, 1) != b"+":
            raise RuntimeError("the box is gone")

    def end(self):
        os.close(self.down)
        os.waitpid(self.pid, 0)
        os.close(self.up)


# ------------------------------------------------------------------ cases
# Each: (words, box before, host, box after, is there a host change that promotion would lose)


def host_append(ws):
    with open(ws + "/d/f", "ab") as file:
        file.write(b"host\n")


def host_append_forged(ws):
    before = os.stat(ws + "/d/f")
    host_append(ws)
    os.utime(ws + "/d/f", ns=(before.st_atime_ns, before.st_mtime_ns))


def host_replace(ws):
    with open(ws + "/d/tmp", "wb") as file:
        file.write(b"host\n")
    os.rename(ws + "/d/tmp", ws + "/d/f")


def host_swap_folder(ws):
    os.rename(ws + "/d", ws + "/d.bak")
    os.rename(ws + "/d.new", ws + "/d")


def host_exchange_folder(ws):
    exchange(ws + "/d", ws + "/d.new")


def host_swap_file_made_before(ws):
    os.rename(ws + "/other", ws + "/d/f")


def host_chmod(ws):
    os.chmod(ws + "/d/f", 0o600)


def host_link(ws):
    os.link(ws + "/d/f", ws + "/linked")


def host_remove(ws):
    os.unlink(ws + "/d/f")


def host_works_beside(ws):
    for folder in (ws, ws + "/d"):
        with open(folder + "/new", "wb") as file:
            file.write(b"host\n")


def host_swaps_and_works(ws):
    host_swap_folder(ws)
    host_works_beside(ws)


def nothing(_ws):
    pass


READ, EMPTY = [("read", "d/f")], []
CASES = [
    ("nothing happened; box appends", READ, nothing, [("append", "d/f")], False),
    ("nothing happened; box replaces by rename", READ, nothing, [("rename", "d/f")], False),
    ("host makes files beside it; box appends", READ, host_works_beside, [("append", "d/f")], False),
    ("host makes files beside it; box replaces by rename", READ, host_works_beside, [("rename", "d/f")], False),
    ("host makes files beside it; box removes", READ, host_works_beside, [("remove", "d/f")], False),
    ("box reads, host appends, box truncates and writes", READ, host_append, [("write", "d/f")], True),
    ("box reads, host appends, box replaces by rename", READ, host_append, [("rename", "d/f")], True),
    ("box writes, then host appends", [("write", "d/f")], host_append, EMPTY, True),
    ("the same, host puts the mtime back", [("write", "d/f")], host_append_forged, EMPTY, True),
    ("box reads, host replaces by rename, box appends", READ, host_replace, [("append", "d/f")], True),
    ("box reads, host moves a file of before T0 there, box appends", READ, host_swap_file_made_before,
     [("append", "d/f")], True),
    ("box reads, host swaps the folder, box appends", READ, host_swap_folder, [("append", "d/f")], True),
    ("box reads, host swaps the folder, box replaces by rename", READ, host_swap_folder,
     [("rename", "d/f")], True),
    ("box reads, host exchanges the folder, box appends", READ, host_exchange_folder,
     [("append", "d/f")], True),
    ("box removes, then host swaps the folder", [("remove", "d/f")], host_swap_folder, EMPTY, True),
    ("box removes, then host appends", [("remove", "d/f")], host_append, EMPTY, True),
    ("box replaces by rename, then host swaps the folder", [("rename", "d/f")], host_swap_folder, EMPTY, True),
    ("box removes, host swaps the folder and makes files", [("remove", "d/f")], host_swaps_and_works, EMPTY, True),
    ("box writes, then host removes", [("write", "d/f")], host_remove, EMPTY, True),
    ("box writes, then host chmods (metadata)", [("write", "d/f")], host_chmod, EMPTY, True),
    ("box writes, then host hard-links it (metadata)", [("write", "d/f")], host_link, EMPTY, True),
]


def make_workspace(top, name):
    ws = os.path.join(top, name)
    for folder in ("d", "d.new"):
        os.makedirs(os.path.join(ws, folder))
        with open(os.path.join(ws, folder, "f"), "w") as file:
            file.write(folder + "\n")
    with open(os.path.join(ws, "other"), "w") as file:
        file.write("other\n")
    return ws


def inode(path, dir_fd=None):
    try:
        return os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def differs(ours, theirs):
    return None if ours is None else ours != theirs


def any_of(*answers):
    """True if one says so, None if none can tell"""
    known = [a for a in answers if a is not None]
    return any(known) if known else None


def asked(ws, box, path):
    """{method: does it say the path drifted}; None: it has nothing to compare"""
    host, ours = os.path.join(ws, path), os.path.join(box.upper, path)
    try:
        seen = os.lstat(host)
    except FileNotFoundError:
        return dict.fromkeys(("ctime", "handle", "view", "links", "mtime"), True)
    folder, own = os.path.dirname(path), os.lstat(ours)
    in_view = inode(path, box.view)
    took = None if stat.S_ISCHR(own.st_mode) or in_view == own.st_ino else in_view
    origin = None if stat.S_ISCHR(own.st_mode) else origin_handle(ours)
    return {"ctime": seen.st_ctime_ns >= box.t0,
            "handle": any_of(differs(origin, host_handle(host)),
                             differs(origin_handle(os.path.dirname(ours)), host_handle(os.path.dirname(host)))),
            "view": any_of(differs(took, seen.st_ino), inode(folder, box.view) != inode(os.path.join(ws, folder))),
            "links": all(os.stat(os.path.join(ws, p)).st_ctime_ns >= box.t0 for p in (".", folder)),
            "mtime": seen.st_mtime_ns >= box.t0}


def run_cases(top, evict=None):
    words = {True: "drift", False: "-", None: "?"}
    methods = ("ctime", "handle", "view", "links", "mtime")
    print(f"\n{'evicted before asking' if evict else 'dentries as they are':60}" + "".join(f"{m:>8}" for m in methods))
    missed = dict.fromkeys((*methods, "ctime or links", "decided"), 0)
    false = dict(missed)
    for number, (name, before, host, after, drifts) in enumerate(CASES):
        ws = make_workspace(top, f"case-{number}{'-evicted' if evict else ''}")
        box = Box(ws)
        for step in before:
            box.do(*step)
        host(ws)
        if evict:
            evict()
        for step in after:
            box.do(*step)
        box.end()
        said = asked(ws, box, "d/f")
        os.close(box.view)
        decided = bool(said["ctime"] or (said["links"] and any_of(said["handle"], said["view"])))
        verdicts = {**said, "ctime or links": said["ctime"] or said["links"], "decided": decided}
        for method, says in verdicts.items():
            missed[method] += drifts and not says
            false[method] += bool(says) and not drifts
        print(f"{name:60}" + "".join(f"{words[said[m]]:>8}" for m in methods) +
              ("   right" if decided == drifts else "   WRONG"))
    print(f"missed of {sum(case[4] for case in CASES)}: {missed}")
    print(f"false of {sum(not case[4] for case in CASES)}: {false}")


def run_line(top, rounds=1000):
    """Writes directly before and after the line, without waiting for a tick."""
    ws = make_workspace(top, "line")
    early = late = 0
    spent = []
    for _ in range(rounds):
        host_append(ws)
        begin = time.perf_counter_ns()
        t0 = draw_line(ws)
        spent.append(time.perf_counter_ns() - begin)
        early += os.stat(ws + "/d/f").st_ctime_ns >= t0  # a false conflict
        host_append(ws)
        late += os.stat(ws + "/d/f").st_ctime_ns < t0  # a missed one
        os.unlink(ws + "/line")
    print(f"line T0: {rounds} rounds, false conflicts {early}, missed {late}, "
          f"{statistics.median(spent) / 1000:.0f} us each (from Python)")


def run_swap(top):
    """Exchange between upper and workspace, compare what came out, swap back."""
    ws = make_workspace(top, "swap")
    box = Box(ws)
    box.do("write", "d/f")
    box.end()
    ours, theirs = box.upper + "/d/f", ws + "/d/f"
    validated = os.stat(theirs)
    os.close(box.view)
    for name in os.listxattr(ours):
        if ".overlay." in name:
            os.removexattr(ours, name)
    host_append(ws)  # the host slips in between check and swap
    exchange(ours, theirs)
    out = os.stat(ours)
    same = (out.st_ino, out.st_size, out.st_mtime_ns) == (validated.st_ino, validated.st_size, validated.st_mtime_ns)
    with open(ours) as file:
        print(f"swap: what came out is what was validated: {same}; it holds {file.read()!r}")
    exchange(ours, theirs)
    with open(ours) as new, open(theirs) as old:
        print(f"swap back: workspace {old.read()!r}, box {new.read()!r}")
    back = os.stat(theirs)
    print(f"after both: same inode {back.st_ino == validated.st_ino}, mtime as the host left it "
          f"{back.st_mtime_ns == out.st_mtime_ns}, ctime moved {back.st_ctime_ns != out.st_ctime_ns}")

    ws = make_workspace(top, "swap-time")
    undo = os.path.join(ws, "undo")
    os.mkdir(undo)
    n_files = 2000
    for side in ("d", "d.new"):
        for number in range(n_files):
            with open(f"{ws}/{side}/{number}", "w") as file:
                file.write(side)
    spent = {"exchange": [], "rename into undo/": []}
    for number in range(n_files):
        begin = time.perf_counter_ns()
        exchange(f"{ws}/d.new/{number}", f"{ws}/d/{number}")
        middle = time.perf_counter_ns()
        os.rename(f"{ws}/d/{number}", f"{undo}/{number}")
        spent["exchange"].append(middle - begin)
        spent["rename into undo/"].append(time.perf_counter_ns() - middle)
    for name, values in spent.items():
        print(f"{name}: {statistics.median(values) / 1000:.1f} us a file (from Python)")


def evict_by(asking, done):
    """Dropping caches needs root: the parent process does it."""
    os.write(asking, b"!")
    os.read(done, 1)


def run_all(top, evict):
    print(f"kernel {os.uname().release}, uid {os.geteuid()}, "
          f"filesystem {os.popen('stat -f -c %T ' + top).read().strip()}")
    run_line(top)
    run_cases(top)
    if evict:
        run_cases(top, evict)
    run_swap(top)


def run_as(user, where):
    top = tempfile.mkdtemp(prefix="adr-0001-", dir=where)
    asking, done = os.pipe(), os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(asking[0])
        status = 1
        try:
            if user:
                os.chown(top, user.pw_uid, user.pw_gid)
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
                libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: setuid took /proc/self away
            run_all(top, (lambda: evict_by(asking[1], done[0])) if user or os.geteuid() == 0 else None)
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(asking[1])
    while os.read(asking[0], 1):
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("2")
        os.write(done[1], b"!")
    status = os.waitpid(pid, 0)[1]
    os.system(f"chmod -R u+rwX {top}")
    shutil.rmtree(top)
    return status


def main():
    where = sys.argv[1] if len(sys.argv) > 1 else "/var/tmp"
    users = [None]
    if os.geteuid() == 0:
        try:
            users = [pwd.getpwnam("nxtester"), None]
        except KeyError:
            print("no user nxtester: as root only")
    return 1 if any([run_as(user, where) for user in users]) else 0


if __name__ == "__main__":
    sys.exit(main())
