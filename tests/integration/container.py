# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real container: podman with runc, and a profile with the answers of Docker's default one.

Its root is an overlay over a folder with the host's /usr in it, so it costs no image.
"""

import json
import os
import subprocess
from pathlib import Path

PODMAN_PROFILE = "/usr/share/containers/seccomp.json"

# What Docker's profile allows with CAP_SYS_ADMIN (or another) only, and podman's to everybody.
DOCKER_REFUSES = {
    "clone", "clone3", "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "fsopen", "fsconfig",
    "fsmount", "fspick", "move_mount", "open_tree", "mount_setattr", "pidfd_getfd", "kcmp", "process_madvise",
    "keyctl", "add_key", "request_key", "userfaultfd", "bpf", "perf_event_open", "open_by_handle_at",
    "io_uring_setup", "io_uring_enter", "io_uring_register", "sethostname", "setdomainname",
}  # fmt: skip
NAMESPACE_FLAGS = 0x7E020000


def docker_profile():
    """podman's list of what is allowed, without what Docker's leaves out; Docker's answers."""
    profile = json.loads(Path(PODMAN_PROFILE).read_text())
    groups = []
    for group in profile["syscalls"]:
        names = [name for name in group["names"] if name not in DOCKER_REFUSES]
        if names:
            groups.append({**group, "names": names})
    flags = {"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    groups.append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [flags]})
    groups.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38})
    return {**profile, "defaultErrnoRet": 1, "syscalls": groups}


class Container:
    """Runs commands in a container that Docker's profile, or another, confines."""

    def __init__(self, folder, binary):
        self.folder, self.binary = Path(folder), binary
        self.root = self.folder / "root"
        for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "run", "home/u", "root", "opt", "ws"):
            (self.root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            if os.path.lexists(f"/{name}"):
                (self.root / name).symlink_to(f"usr/{name}")
        (self.root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\n")
        (self.root / "etc/group").write_text("root:x:0:\nu:x:1000:\n")
        (self.root / "opt/nex-box").touch()
        (self.root / "ws/file").write_text("old\n")
        os.chmod(self.root / "tmp", 0o1777)
        for path in ("home/u", "ws", "ws/file"):
            os.chown(self.root / path, 1000, 1000)
        self.profile = self.folder / "profile.json"
        self.profile.write_text(json.dumps(docker_profile()))

    def run(self, *command, user="1000", options=(), profile=None, timeout=120):
        argv = [
            "podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "--network", "none",
            "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=10000:10000", "--user", user,
            "--security-opt", f"seccomp={profile or self.profile}",
            "-v", "/usr:/usr:ro", "-v", f"{self.binary}:/opt/nex-box:ro", "--workdir", "/ws",
            *options, "--rootfs", f"{self.root}:O", *command,
        ]  # fmt: skip
        env = {"PATH": os.environ["PATH"], "HOME": "/root"}
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=env)
