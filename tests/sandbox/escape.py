"""Run the attacks in a sandbox, as the user who runs this program, and print one row for each.

Usage: escape.py shell|terminal|files bwrap|landlock. `test_escapes.py` starts it, also as another
user.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import trio

import agentrt
import agentrt.agents
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
FILES = (
    ("read", "home/.ssh/id_rsa"),
    ("read", "home/neighbour/secret"),
    ("read", "home/project/to-ssh/id_rsa"),
    ("read", "home/project/hidden.txt"),
    ("read", "home/project/secrets/key"),
    ("read", "/etc/passwd"),
    ("read", "/proc/self/environ"),
    ("write", "home/.bashrc"),
    ("write", "home/neighbour/new"),
    ("write", "home/project/to-ssh/new"),
    ("write", "home/project/secrets/new"),
    ("write", "home/project/hidden.txt"),
    ("write", "home/project/.git/hooks/pre-commit"),
    ("write", "home/project/.git/config"),
    ("write", "home/project/.git/commondir"),
    ("write", "home/project/sub/.git/hooks/pre-commit"),
    ("write", "home/project/.mcp.json"),
    ("write", "home/project/.claude/settings.json"),
    ("write", "home/.claude/settings.json"),
    ("write", "/etc/escape"),
)
CONTROLS = (("read", "home/project/plain.txt"), ("write", "home/project/new.txt"))


def prepare(base: Path, token: str) -> Path:
    """Make a home folder with secrets and a project, and return the project."""
    home, project = base / "home", base / "home/project"
    for folder in (".ssh", ".aws", ".claude", "neighbour", "project/.claude", "project/secrets"):
        (home / folder).mkdir(parents=True)
    secret = (".ssh/id_rsa", ".aws/credentials", ".netrc", "neighbour/secret", ".bashrc")
    for file in (*secret, "project/hidden.txt", "project/secrets/key"):
        (home / file).write_text(token)
    for file in (".mcp.json", ".claude/settings.json"):
        (project / file).write_text("{}")
    (project / "plain.txt").write_text("plain")
    (project / ".gitignore").write_text("secrets\nhidden.txt\n")
    (project / "to-ssh").symlink_to(home / ".ssh")
    identity = "git config user.email a@b && git config user.name a"
    line = f"git init -q . && {identity} && git add -A && git commit -qm x && git init -q sub"
    line += " && rm -r sub/.git/hooks && git worktree add -q ../linked"
    line += " && mkdir -p .git/modules/a && git init -q --bare .git/modules/a/b"
    subprocess.run(line, shell=True, cwd=project, check=True, env={**os.environ, "HOME": str(home)})
    (base / "outside").write_text("")
    (project / "planted").hardlink_to(base / "outside")
    (base / "marker").write_text("")
    return project


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as each:
        try:
            each.connect(("10.255.255.255", 9))
        except OSError:
            return "127.0.0.2"
        return str(each.getsockname()[0])


def closed_places() -> list[str]:
    """Return places of the system that only root or a service can read, and that are not empty."""
    found = []
    for root in ("/etc", "/var/lib", "/var/log", "/var/cache"):
        for folder, folders, files in os.walk(root):
            if folder.startswith("/var/lib/dpkg"):
                continue
            closed = [each for each in folders if not os.stat(f"{folder}/{each}").st_mode & 4]
            folders[:] = [each for each in folders if each not in closed]
            shallow = root == "/etc" or folder.count("/") < 4
            for name in (*closed, *(files if shallow else ())):
                status = os.lstat(f"{folder}/{name}")
                if not stat.S_ISLNK(status.st_mode) and not status.st_mode & 4 and status.st_size:
                    found.append(f"{folder}/{name}")
    return found


class Daemons:
    """Services of this machine that programs inside must not reach."""

    def __init__(self, base: Path, token: str) -> None:
        self.sockets: list[socket.socket] = []
        self.paths: list[str] = []
        number = os.getpid()
        run = "/run" if os.access("/run", os.W_OK) else str(base)
        self.tmpfile = f"/tmp/escape-{number}.txt"
        Path(self.tmpfile).write_text(token)
        (base / "services").mkdir()
        self.named = {
            "runsock": self._listen(f"{run}/escape-{number}.sock"),
            "tmpsock": self._listen(f"/tmp/escape-{number}.sock"),
            "varsock": self._listen(f"{base}/services/escape.sock"),
        }
        self.abstract = f"escape-{number}"
        self._listen(f"\0{self.abstract}")

    def _listen(self, path: str) -> str:
        each = socket.socket(socket.AF_UNIX)
        each.bind(path)
        each.listen()
        self.sockets.append(each)
        if not path.startswith("\0"):
            self.paths.append(path)
        return path

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        for path in (*self.paths, self.tmpfile):
            Path(path).unlink(missing_ok=True)


def break_bwrap(base: Path) -> None:
    """Put a bubblewrap first on the search path that fails."""
    broken = base / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    os.environ["PATH"] = f"{broken.parent}:{os.environ['PATH']}"


async def attack(way: str, tier: str, base: Path) -> None:
    token = f"SECRET-{secrets.token_hex(4)}"
    project = prepare(base, token)
    home = project.parent
    daemons = Daemons(base, token)
    listeners = await trio.open_tcp_listeners(0, host="0.0.0.0")
    port = listeners[0].socket.getsockname()[1]
    targets = {
        "home": str(home),
        "token": token,
        "marker": str(base / "marker"),
        "tmpfile": daemons.tmpfile,
        "port": port,
        "address": own_address(),
        "host": os.getpid(),
        "needle": "escape.py",
        "closed": closed_places(),
        "abstract": daemons.abstract,
        **daemons.named,
    }
    env = {
        **os.environ,
        "HOME": str(home),
        "TARGETS": json.dumps(targets),
        "CLAUDE_CONFIG_DIR": "",
    }
    read = [str(HERE), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    nested = tier == "nested"
    if tier == "landlock":
        break_bwrap(base)
        sandbox = Sandbox(read=read, needs="landlock")
    else:
        sandbox = Sandbox(read=read, hide=["hidden.txt", "secrets/"], nested=nested)
    # Landlock cannot hide the project's settings of agents, so that they must be none of this one.
    settings = () if tier == "landlock" else None
    command = [sys.executable, str(HERE / "shell_agent.py")]
    agent = agentrt.agents.acp(command, name="claude", project_files=settings)

    async def accept(stream: trio.SocketStream) -> None:
        await stream.aclose()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, accept, listeners)
            async with agentrt.open_session(
                agent, cwd=project, sandbox=sandbox, env=env, permissions=agentrt.allow_all
            ) as session:
                assert session.sandbox is not None
                assert session.sandbox.tier == ("bwrap" if nested else tier)
                if way == "files":
                    for method, name in (*CONTROLS, *FILES):
                        path = name if name.startswith("/") else str(base / name)
                        said = (await session.run(f"{method} {path}")).text
                        state = "done" if '"result"' in said else "blocked"
                        kind = "control: " if (method, name) in CONTROLS else ""
                        print(f"{kind}{method} {name}\t{state}\t{said[:160]!r}")
                else:
                    line = f"{sys.executable} {HERE / 'attacks.py'}"
                    print((await session.run(f"{way} {line}")).text)
            nursery.cancel_scope.cancel()
        changed = [
            name for name in (".bashrc", ".ssh/id_rsa") if (home / name).read_text() != token
        ]
        print(f"changed outside\t{'done' if changed else 'blocked'}\t{changed!r}")
        left = (home / "escape.txt").exists()
        print(f"file next to the folder\t{'done' if left else 'blocked'}\t''")
    finally:
        daemons.close()


def main() -> None:
    base = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="escape-"))
    try:
        trio.run(attack, *sys.argv[1:], base)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
