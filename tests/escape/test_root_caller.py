# SPDX-License-Identifier: MIT OR Apache-2.0
"""A root caller: what is guarded by ownership and not by a capability is closed by mounts and Landlock."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from attacker import argv, assert_refused

MACHINE = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/memory/cgroup.procs",
    "/sys/fs/cgroup/devices/release_agent",
    "/sys/fs/cgroup/pids/cgroup.procs",
    "/dev/kmsg",
    "/dev/kvm",
    "/dev/mem",
    "/dev/vda",
    "/dev/net/tun",
    "/dev/fuse",
    "/dev/loop-control",
    "/etc/shadow",
    "/etc/passwd",
    "/usr/bin/id",
]


def can_open(path):
    """Whether root can, on this machine: only then is there something to attack."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as e:
        return e.errno == errno.ETXTBSY
    return True


HERE = [path for path in MACHINE if can_open(path)]
OPEN = "os.close(os.open(a[0], os.O_WRONLY | os.O_NONBLOCK)); print('open')"


def test_there_is_something_to_attack():
    assert os.geteuid() != 0 or len(HERE) >= 10, HERE


@pytest.mark.parametrize("path", HERE)
def test_a_file_of_the_machine_cannot_be_opened_for_writing(path, root_attacker):
    """Attack: open for writing what belongs to the machine. Class: root caller. Stops: mounts, /dev, Landlock."""
    assert_refused(root_attacker.say(OPEN, path))
    text = root_attacker.bare(OPEN, path)
    assert text.strip() == "open" or text.split()[1] in ("EBUSY", "ETXTBSY"), text


def test_nothing_of_sysfs_or_sysctl_can_be_opened_for_writing(root_attacker):
    """Attack: search all of /sys and /proc/sys for a file that can be written. Class: root caller. Stops: mounts."""
    code = """
n = 0
for top in ('/proc/sys', '/sys'):
    for d, _, files in os.walk(top):
        for f in files:
            n += 1
            try: os.close(os.open(d + '/' + f, os.O_WRONLY | os.O_NONBLOCK)); print(d + '/' + f)
            except OSError: pass
print(n > 1000)
"""
    assert root_attacker.say(code) == "True\n"
    assert root_attacker.bare("os.close(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))") == ""


def test_release_agent(root_attacker):
    """Attack: mount a cgroup hierarchy of one's own to set release_agent. Class: root caller. Stops: seccomp, caps."""
    code = "call(165, b'x', a[0].encode(), b'cgroup', 0, b'none,name=nexboxescape')"
    assert_refused(root_attacker.say(code, "/tmp"))
    assert not root_attacker.bare("call(272, 0x20000);" + code, root_attacker.ws).startswith("refused: EPERM")


@pytest.mark.tier("namespaces")
def test_files_of_others_on_the_host(root_attacker, ordinary):
    """Attack: use the capabilities over files that root keeps on a stranger's file of the host. Class: root caller.

    Stops: mounts (read-only). In the workspace they work, which is what they are for.
    """
    code = """
for f in (lambda: os.chown(a[0], 0, 0), lambda: os.chmod(a[0], 0o777), lambda: open(a[0], 'w'), lambda: os.unlink(a[0])):
    try: f(); print('done')
    except OSError: pass
"""
    for folder, expected in (("/srv", 0), (root_attacker.ws, 4)):
        path = Path(folder) / "nexbox-escape-stranger"
        path.write_text("x")
        os.chmod(path, 0o600)
        os.chown(path, ordinary.uid, ordinary.gid)
        try:
            assert root_attacker.say(code, path).split().count("done") == expected
            assert path.stat().st_uid == ordinary.uid and path.read_text() == "x"
        finally:
            path.unlink()


def test_another_user_inside_is_no_way_out(root_attacker, ordinary):
    """Attack: setuid to an ordinary user and use what that one owns on the host. Class: root caller. Stops: mounts."""
    path = Path("/srv/nexbox-escape-stranger")
    path.write_text("x")
    os.chown(path, ordinary.uid, ordinary.gid)
    code = "os.setgid(int(a[1])); os.setuid(int(a[1])); os.chmod(a[0], 0o777); print('done')"
    try:
        assert_refused(root_attacker.say(code, path, ordinary.uid))
        assert root_attacker.bare(code, path, ordinary.uid).strip() == "done"
    finally:
        path.unlink()


def test_addresses_of_the_kernel(root_attacker):
    """Attack: read the kernel's addresses and log. Class: root caller. Stops: caps, masks."""
    code = """
print(any(int(l.split()[0], 16) for l in open('/proc/kallsyms')))
for f in ('/proc/kcore', '/proc/kmsg', '/proc/keys'):
    try: print(f, len(os.read(os.open(f, os.O_RDONLY | os.O_NONBLOCK), 64)))
    except OSError: pass
"""
    text = root_attacker.say(code).split("\n")
    assert text[0] == "False" and not [l for l in text[1:] if l and not l.endswith(" 0")], text
    assert "True" in root_attacker.bare(code)


@pytest.mark.tier("namespaces")
def test_the_program_itself_cannot_be_overwritten(root_attacker, nexbox):
    """Attack: overwrite or chmod nex-box by its path and by /proc/PID/exe (CVE-2019-5736). Class: root caller.

    Stops: mounts, Landlock, init is not dumpable.
    """
    copy = "/srv/nexbox-escape-copy"
    shutil.copy2(nexbox, copy)
    before = (os.stat(copy).st_mode, os.stat(copy).st_mtime_ns, Path(copy).read_bytes())
    code = """
for path in [a[0]] + ['/proc/%s/exe' % p for p in os.listdir('/proc') if p.isdigit() and p != str(os.getpid())]:
    for f in (lambda: os.chmod(path, 0o4777), lambda: os.utime(path, (1, 1)), lambda: open(path, 'r+b').write(b'x')):
        try: f(); print(path)
        except OSError: pass
"""
    try:
        done = subprocess.run([copy, "run", "-q", "--", *argv(code, copy)], cwd=root_attacker.ws, capture_output=True)
        assert done.stdout == b"", done
        assert (os.stat(copy).st_mode, os.stat(copy).st_mtime_ns, Path(copy).read_bytes()) == before
        root_attacker.bare("os.utime(a[0], (1, 1))", copy)
        assert os.stat(copy).st_mtime == 1
    finally:
        os.unlink(copy)
