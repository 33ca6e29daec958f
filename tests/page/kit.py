"""What the tests of the page's modules share: Node, and a process of it that answers by lines."""

from __future__ import annotations

import shutil
import subprocess
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

needs_node = pytest.mark.skipif(NODE is None, reason=f"needs Node {OLDEST} or newer")


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
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Answering(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0
