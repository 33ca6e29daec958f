"""What the tests of the page's modules share: Node, the modules as it reads them, and a process of
it that answers by lines."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "src/agentrt/_serve/page"
OLDEST = 20


def find_node() -> str | None:
    """The machine's Node, if it is new enough."""
    node = shutil.which("node")
    if node is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return node if int(version.removeprefix("v").partition(".")[0]) >= OLDEST else None


NODE = find_node()

ESBUILD = ROOT / "node_modules/esbuild/bin/esbuild"
MODULES = ROOT / "node_modules/.cache/agentrt-page"

needs_node = pytest.mark.skipif(NODE is None, reason=f"needs Node {OLDEST} or newer")
needs_packages = pytest.mark.skipif(
    NODE is None or not ESBUILD.exists(),
    reason=f"needs the page's packages (npm ci, with Node {OLDEST} or newer)",
)


def modules() -> Path:
    """The page's modules as JavaScript, one file each: next to the packages that they import."""
    assert NODE is not None
    kinds = (".js", ".ts", ".tsx")
    sources = sorted(path for path in PAGE.iterdir() if path.suffix in kinds)
    sources = [path for path in sources if not path.name.endswith(".d.ts")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = MODULES / digest
    if not folder.is_dir():
        MODULES.mkdir(parents=True, exist_ok=True)
        for old in MODULES.glob("[0-9a-f]" * 16):  # what another worker makes has another name
            shutil.rmtree(old, ignore_errors=True)
        made = tempfile.mkdtemp(dir=MODULES)
        command = [NODE, ESBUILD, *sources, f"--outdir={made}", "--format=esm", "--log-level=error"]
        subprocess.run(command, cwd=ROOT, check=True)
        (Path(made) / "package.json").write_text('{"type": "module"}')
        try:
            os.replace(made, folder)
        except OSError:  # another process was faster
            assert folder.is_dir()
    return folder


class Answering:
    """A script that answers each line of JSON with one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, value: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(value) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline())


@contextmanager
def running(script: str, folder: Path = HERE) -> Iterator[Answering]:
    """The script in a Node of its own."""
    assert NODE is not None
    command = [NODE, str(folder / script)]
    env = {**os.environ, "PAGE": str(modules()) if ESBUILD.exists() else ""}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as process:
        yield Answering(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0
