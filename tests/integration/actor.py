# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who runs a command: root, or an ordinary user.

pytest itself runs as root, so that it can make users, mounts and loop devices. What is under
test runs as somebody else with a clean environment, so that neither root's rights nor root's
settings make a test pass. The identity is taken on between fork and exec: no `su`, no `setpriv`
stands between the test and the process it signals.
"""

import os
import pwd
import subprocess
from dataclasses import dataclass, field

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ORDINARY = "nxtester"


class Process(subprocess.Popen):
    """Popen that a failing test does not wait for: leaving the block by an exception kills it."""

    def __exit__(self, kind, value, traceback):
        if kind and self.poll() is None:
            self.kill()
        return super().__exit__(kind, value, traceback)


@dataclass(frozen=True)
class Actor:
    """A user: its ids, its home, its environment."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple = field(default=())

    @property
    def is_root(self):
        return self.uid == 0

    def environment(self, extra=None):
        """A login's environment; sanitizer options pass through."""
        env = {
            "PATH": PATH,
            "HOME": self.home,
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        }
        # Of sanitizers, and of a test build of which a stage is left out (tests/escape/stages).
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "NEXBOX_TEST_WITHOUT"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update(extra or {})
        return env

    def popen(self, argv, env=None, **options):
        """subprocess.Popen as this user; @env is added to its environment."""
        if os.geteuid() == 0:
            options.update(user=self.uid, group=self.gid, extra_groups=list(self.groups), umask=0o022)
        options.setdefault("stdin", subprocess.DEVNULL)
        return Process(argv, env=self.environment(env), **options)

    def run(self, argv, timeout=None, input=None, **options):
        """Run to the end; stdout and stderr are kept unless @options say otherwise."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        with self.popen(argv, **options) as process:
            out, err = process.communicate(input, timeout)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def check(self, argv, **options):
        """run() that must end with 0."""
        done = self.run(argv, **options)
        assert done.returncode == 0, (argv, done.returncode, done.stdout, done.stderr)
        return done


def lookup(name):
    entry = pwd.getpwnam(name)
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return Actor(name, entry.pw_uid, entry.pw_gid, entry.pw_dir, groups)


def ordinary():
    """The ordinary user of the suite, made on first use; the caller itself when it is no root."""
    if os.geteuid() != 0:
        return lookup(pwd.getpwuid(os.geteuid()).pw_name)
    try:
        pwd.getpwnam(ORDINARY)
    except KeyError:
        subprocess.run(["useradd", "-m", "-s", "/bin/sh", ORDINARY], check=True)
    return lookup(ORDINARY)
