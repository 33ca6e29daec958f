"""Where the benchmarks live: the compiled agent, and an environment per peer.

Everything is made on demand below `~/.cache/agentrt-bench` (or `$BENCH_LAB`). The peers' versions
are those of the dependency group `bench` in `pyproject.toml`, and those of `package-lock.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
LAB = Path(os.environ.get("BENCH_LAB") or Path.home() / ".cache" / "agentrt-bench")
PEERS = {
    "acp": "agent-client-protocol",
    "claude": "claude-agent-sdk",
    "broadcast": "websockets",
}
"""The Python SDK of each protocol, and what a crowd of viewers is compared with."""


ROWS = "a file to which the figures are added as lines of JSON"


def keep(
    rows: str | None,
    benchmark: str,
    figure: str,
    values: Sequence[float],
    at_most: float | None = None,
) -> None:
    """Add a figure, as it was in each round, to the file of `--rows`."""
    if rows is not None:
        row = {"benchmark": benchmark, "figure": figure, "values": values, "at_most": at_most}
        with Path(rows).open("a") as file:
            file.write(json.dumps(row) + "\n")


def build_agent() -> Path:
    """Compile the scripted agent where it is missing or older than its source; its folder."""
    source, binary = HERE / "fakeagent.c", LAB / "fakeagent"
    LAB.mkdir(parents=True, exist_ok=True)
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            sys.exit("the benchmarks need a C compiler (on Debian: apt install gcc libc6-dev)")
        made = LAB / f"fakeagent.{os.getpid()}"
        subprocess.run([compiler, "-O2", "-o", made, source], check=True)
        made.replace(binary)  # another run may be starting the one before at this moment
    for protocol in ("acp", "claude"):  # the agent speaks that of the name it is started under
        link = LAB / f"fake-{protocol}"
        if not link.is_symlink():
            link.symlink_to(binary.name)
    return LAB


def peer(protocol: str, *, install: bool) -> Path | None:
    """The Python that has the protocol's peer, at its pinned version; None without it."""
    group = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["dependency-groups"]
    pinned = next(line for line in group["bench"] if line.startswith(PEERS[protocol]))
    folder = LAB / f"venv-{protocol}"
    python = folder / "bin" / "python"
    name, version = pinned.split("==")
    probe = f"from importlib.metadata import version; assert version({name!r}) == {version!r}"
    if (
        python.exists()
        and not subprocess.run([python, "-c", probe], capture_output=True).returncode
    ):
        return python
    if not install:
        return None
    print(f"installing {pinned} ...", file=sys.stderr)
    constraints = HERE.parent / "constraints.txt"
    if uv := shutil.which("uv"):
        venv = [uv, "venv", "--clear", "--quiet", "--python", sys.executable, folder]
        pip = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        venv = [sys.executable, "-m", "venv", "--clear", folder]
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = all(
        not subprocess.run(step).returncode for step in (venv, [*pip, "-c", constraints, pinned])
    )
    return python if done else None


def node_modules(*, install: bool) -> Path | None:
    """The folder in which npm has put the SDKs for TypeScript, as `package-lock.json` names them;
    None without them or without Node."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return None
    folder, files = LAB / "npm", ("package.json", "package-lock.json")
    wanted = "".join((HERE / name).read_text() for name in files)
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return folder
    if not install:
        return None
    print("installing the SDKs for TypeScript ...", file=sys.stderr)
    folder.mkdir(exist_ok=True)
    for name in files:
        shutil.copy(HERE / name, folder / name)
    # Without what is optional: those are programs of 200 MB, which the scripted agent stands for.
    flags = ("--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    if subprocess.run([npm, "ci", *flags], cwd=folder, stdin=subprocess.DEVNULL).returncode:
        return None
    stamp.write_text(wanted)
    return folder
