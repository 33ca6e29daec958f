"""Installs the npm packages that the tests here drive, exactly as `package-lock.json` names them.

    python tests/clients/install.py [--into DIR]

Running it again changes nothing as long as the lock does not. Packages come from npm through
whatever registry the machine is set up for; no install script of a package runs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("package.json", "package-lock.json")
HOW = "python tests/clients/install.py"


def root() -> Path:
    """Where the packages are, unless `AGENTRT_CLIENTS` says otherwise."""
    if chosen := os.environ.get("AGENTRT_CLIENTS"):
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "agentrt-clients"


def stamp() -> str:
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name in FILES)).hexdigest()


def missing(folder: Path) -> str | None:
    """What keeps the tests from running, if anything does."""
    if shutil.which("node") is None:
        return "needs Node.js 20 or newer (`node`)"
    installed = folder / ".installed"
    if not (installed.is_file() and installed.read_text() == stamp()):
        return f"needs the npm packages: {HOW}"
    return None


def install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm was not found: it comes with Node.js")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".installed").unlink(missing_ok=True)
    for name in FILES:
        shutil.copy(HERE / name, folder / name)
    flags = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    done = subprocess.run([npm, "ci", *flags], cwd=folder, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit("npm ci failed")
    (folder / ".installed").write_text(stamp())


def main() -> None:
    parser = argparse.ArgumentParser(description="Install the npm packages for tests/clients.")
    parser.add_argument("--into", type=Path, default=root(), metavar="DIR")
    folder: Path = parser.parse_args().into
    if (folder / ".installed").is_file() and (folder / ".installed").read_text() == stamp():
        print(f"already installed in {folder}")
        return
    install(folder)
    print(f"installed in {folder}")


if __name__ == "__main__":
    main()
