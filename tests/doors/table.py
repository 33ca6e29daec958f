"""The table of features by interface, made from the tests.

    python tests/doors/table.py [--tests]

The mark `@pytest.mark.door(DOOR, THING, …)` declares that a test uses these features through that
interface. The table in `docs/reference/interfaces.md` has a tick for each mark, and
`test_doors.py` checks that it has no other. `--tests` lists the tests.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs/reference/interfaces.md"
BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"

THINGS: Final = ("prompt", "stream", "permission", "cancel", "resume", "fork", "tools")

DOORS: Final = {
    "python": "Python, on Trio",
    "asyncio": "Python, on asyncio",
    "repl": "`agentrt`, interactively",
    "one-shot": "`agentrt -p`",
    "page": "the page, over `agentrt.v1`",
    "legacy": "Python, an agent of the [older dialect](../guides/claude-sdk-programs.md)",
    "ai": "`/ai`, the AI SDK",
    "acp": "`/acp`, over a WebSocket",
    "editor": "`agentrt acp`",
    "attached-editor": "`agentrt acp --attach`",
    "attach": "`agentrt attach`",
    "attach-once": "`agentrt attach -p`",
    "asgi": "`agentrt.asgi`",
}

CANNOT: Final = {
    ("repl", "tools"): "not in a terminal; tools of an embedding program work",
    ("one-shot", "fork"): "not with a single prompt",
    ("one-shot", "tools"): "not in a terminal; tools of an embedding program work",
    ("legacy", "resume"): "not in this dialect",
    ("legacy", "fork"): "not in this dialect",
    ("legacy", "tools"): "not in this dialect",
    ("attach", "tools"): "not in a terminal; tools of an embedding program work",
    ("attach-once", "fork"): "not with a single prompt",
    ("attach-once", "tools"): "not in a terminal; tools of an embedding program work",
}
"""The reason why an interface lacks a feature."""


def proofs() -> Iterator[tuple[str, str, str]]:
    """Each mark: the door, the thing, and the test that does it."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.door(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for said in map(_marked, node.decorator_list):
                    for thing in said[1:]:
                        yield said[0], thing, f"{path.relative_to(ROOT)}::{node.name}"


def _marked(decorator: ast.expr) -> list[str]:
    match decorator:
        case ast.Call(func=ast.Attribute(attr="door"), args=args):
            return [str(ast.literal_eval(arg)) for arg in args]
    return []


def table() -> str:
    done = {(door, thing) for door, thing, _ in proofs()}
    rows = [["", *THINGS], ["---"] * (1 + len(THINGS))]
    for door, title in DOORS.items():
        cells = ["✓" if (door, each) in done else CANNOT.get((door, each), "") for each in THINGS]
        rows.append([title, *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written() -> str:
    """The table that the page has."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["--tests"]:
        for proof in sorted(proofs()):
            print(*proof)
    else:
        text = PAGE.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}")
