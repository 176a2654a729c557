# SPDX-License-Identifier: MIT OR Apache-2.0
"""Secrets: credential places of the home directory and credential variables are not in the box."""

import os
import re
import subprocess

import pytest
from attacker import argv, known_limit
from box_fixtures import PROJECT

TABLE = re.findall(r'^\t"(\.[^"]+)",$', (PROJECT / "src/platform/linux/enclave/secrets.c").read_text(), re.M)
CANARY = "nexbox-canary"

# Prints the rows that can be read.
READ_ALL = f"""
for row in a[1:]:
    top = os.path.join(a[0], row)
    files = [top] + [os.path.join(d, f) for d, _, fs in os.walk(top) for f in fs]
    for f in files:
        try:
            if {CANARY!r} in open(f, errors='replace').read(): print(row)
        except OSError:
            pass
"""


@pytest.fixture
def home(host, user):
    """An empty home directory of the user's."""
    path = host / "home"
    path.mkdir()
    os.chown(path, user.uid, user.gid)
    return path


def lay(home, owner, row, text=CANARY):
    path = home / row
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    subprocess.run(["chown", "-R", f"{owner.uid}:{owner.gid}", home], check=True)
    return path


def test_the_table_was_read():
    assert len(TABLE) > 50 and ".ssh" in TABLE and ".npmrc" in TABLE


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_no_row_of_the_table_can_be_read(kind, attacker, home, host):
    """Attack: read each credential of the table, as a file, as a folder, as a link elsewhere. Class: secrets.

    Stops: masks. A link is followed: what it leads to is covered where it lies.
    """
    rows = [r for r in TABLE if not any(o != r and r.startswith(o + "/") for o in TABLE)]
    for row in rows:
        if kind == "link":
            (host / "elsewhere").mkdir(exist_ok=True)
            real = host / "elsewhere" / row.strip(".").replace("/", "_")
            real.write_text(CANARY)
            (home / row).parent.mkdir(parents=True, exist_ok=True)
            (home / row).symlink_to(real)
        else:
            lay(home, attacker.owner, row if kind == "file" else f"{row}/deep/token")
    subprocess.run(["chown", "-Rh", f"{attacker.owner.uid}:{attacker.owner.gid}", host], check=True)
    env = {"HOME": str(home)}
    assert attacker.bare(READ_ALL, home, *rows, env=env).split() == rows
    assert attacker.say(READ_ALL, home, *rows, env=env).split() == []
    if kind == "link":
        names = [p.name for p in (host / "elsewhere").iterdir()]
        assert attacker.say(READ_ALL, host / "elsewhere", *names, env=env).split() == []


def test_the_home_of_the_passwd_entry_is_covered_as_well(attacker):
    """Attack: $HOME points elsewhere (a test suite's habit); read the real home's credentials. Class: secrets.

    Stops: masks.
    """
    from pathlib import Path

    owner = attacker.owner
    row = Path(owner.home) / ".vault-token"
    assert not row.exists(), f"{row} is somebody's"
    row.write_text(CANARY)
    os.chown(row, owner.uid, owner.gid)
    try:
        env = {"HOME": str(attacker.place.folder)}
        assert attacker.bare(READ_ALL, owner.home, ".vault-token", env=env).split() == [".vault-token"]
        assert attacker.say(READ_ALL, owner.home, ".vault-token").split() == []
        assert attacker.say(READ_ALL, owner.home, ".vault-token", env=env).split() == []
    finally:
        row.unlink()


def test_a_grant_of_one_file_does_not_give_the_folder(attacker, home):
    """Attack: the user gives ~/.ssh/known_hosts back; read the key beside it. Class: secrets. Stops: masks."""
    lay(home, attacker.owner, ".ssh/known_hosts", "granted")
    lay(home, attacker.owner, ".ssh/id_ed25519")
    options = ["--read", home / ".ssh/known_hosts"]
    env = {"HOME": str(home)}
    assert attacker.say(READ_ALL, home, ".ssh/id_ed25519", env=env).split() == []
    assert attacker.say("print(open(a[0]).read())", home / ".ssh/known_hosts", options=options, env=env) == "granted\n"
    assert attacker.say(READ_ALL, home, ".ssh/id_ed25519", options=options, env=env).split() == []


def test_a_hidden_folder_is_empty_by_every_road(attacker, host):
    """Attack: reach what --hide covers by other names of it. Class: secrets. Stops: masks."""
    (host / "s").mkdir()
    (host / "s/f").write_text(CANARY)
    subprocess.run(["chown", "-R", f"{attacker.owner.uid}:{attacker.owner.gid}", host], check=True)
    code = """
os.symlink(a[0], 'l')
for road in (a[0], '/proc/self/root' + a[0], '/proc/self/cwd/l', os.path.dirname(a[0]) + '/./s/../s'):
    try: print(open(road + '/f').read())
    except OSError: pass
try: os.rename(a[0], a[0] + '2')
except OSError: pass
try: print(open(a[0] + '2/f').read())
except OSError: pass
"""
    assert attacker.say(code, host / "s", options=["--hide", host / "s"]) == ""
    assert CANARY in attacker.bare(code, host / "s")


def replaced(attacker, nexbox, path, options, env):
    """What the box reads from @path after the host has replaced it by rename(2), as editors do."""
    code = "print('up', flush=True); sys.stdin.read(1); print(open(a[0]).read())"
    argument = [nexbox, "run", "-q", *map(str, options), "--", *argv(code, path)]
    with attacker.owner.popen(argument, cwd=attacker.ws, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as box:
        assert box.stdout.readline() == b"up\n"
        new = path.with_name("new")
        new.write_text(CANARY + " renewed")
        os.chown(new, attacker.owner.uid, attacker.owner.gid)
        new.rename(path)
        return box.communicate(b"x", 10)[0].decode()


def test_a_credential_that_the_host_renews_stays_covered(attacker, home, nexbox):
    """Attack: wait until a tool on the host writes its token anew by rename. Class: secrets. Stops: masks on the overlay."""
    path = lay(home, attacker.owner, ".netrc")
    assert CANARY not in replaced(attacker, nexbox, path, [], {"HOME": str(home)})
    assert CANARY in attacker.bare("print(open(a[0]).read())", path)


@known_limit("renewed")
def test_a_hidden_file_that_the_host_renews_stays_covered(attacker, host, nexbox):
    """Attack: the same with --hide FILE outside the home: rename(2) takes a mount off that others made. Class: secrets.

    Stops: masks.
    """
    path = host / "secret"
    path.write_text(CANARY)
    os.chown(path, attacker.owner.uid, attacker.owner.gid)
    assert CANARY not in replaced(attacker, nexbox, path, ["--hide", path], None)


VARIABLES = [
    "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
    "XDG_RUNTIME_DIR", "DOCKER_HOST", "KUBECONFIG", "TMUX", "VSCODE_GIT_IPC_HANDLE", "GITHUB_TOKEN", "GH_TOKEN",
    "NPM_TOKEN", "HF_TOKEN", "CI_JOB_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET",
    "GOOGLE_APPLICATION_CREDENTIALS", "PGPASSWORD", "DB_PASSWORD", "CLIENT_SECRET", "SECRET_KEY_BASE", "REDISCLI_AUTH",
    "TWINE_PASSWORD", "VAULT_TOKEN", "STRIPE_PRIVATE_KEY",
]  # fmt: skip


def test_credential_variables_are_dropped(attacker):
    """Attack: read credentials and host sockets from the environment. Class: secrets. Stops: the environment's table."""
    env = {name: CANARY for name in VARIABLES}
    code = f"print(*sorted(k for k, v in os.environ.items() if {CANARY!r} in v))"
    assert attacker.bare(code, env=env).split() == sorted(VARIABLES)
    assert attacker.say(code, env=env).split() == []
    assert attacker.say(code, env=env, options=["--env", "GITHUB_TOKEN"]).split() == ["GITHUB_TOKEN"]


@pytest.mark.tier("namespaces")
def test_the_callers_environment_is_in_no_process_of_the_box(attacker):
    """Attack: read dropped variables from /proc/*/environ: init was forked from nex-box. Class: secrets.

    Stops: init is not dumpable.
    """
    code = f"""
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'mem', 'auxv'):
        try:
            if {CANARY!r}.encode() in open('/proc/%s/%s' % (pid, name), 'rb').read(): print(pid, name)
        except (OSError, ValueError): pass
"""
    env = {"GITHUB_TOKEN": CANARY}
    assert attacker.say(code, env=env) == ""
    assert "environ" in attacker.bare(code, env=env)
