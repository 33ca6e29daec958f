"""Names and prose of the source and the docs: unique class names, plain text, small functions.

The rules are in CONTRIBUTING.md under "Code" and "Text". Generated protocol types are exempt.
Numbers named `…_LEFT` count the places that do not follow a rule yet; they are lowered, never
raised.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "agentrt"

GENERATED: Final = frozenset({"_core/codex/messages.py"})
"""Files that are made from a protocol's schema."""

MAX_BRANCHES: Final = 15
"""The number of paths through one function: 1, and 1 more for each branch."""

CLASS_NAMES_LEFT: Final = 1
OPENINGS_LEFT: Final = 0
BUNDLES_LEFT: Final = 0
LONG_FUNCTIONS_LEFT: Final = 0

OPENINGS: Final = re.compile(
    r"(?:What|Whether|How|Who|Whom|Whose|Why|Where|When|Those|The same)\b", re.IGNORECASE
)
"""Beginnings of a docstring that leave its subject open."""

HABITS: Final = {
    "a free relative clause as a noun": r"\b(?:what|whoever|whose|whom)\b(?!\s*\?)",
    "`behind` or `ahead of` for a time": r"\b(?:behind|ahead of)\b",
    "`is no …`, `is none`, `is another`": r"\b(?:is|are|was|were) (?:no|another|(?-i:none))\b",
    "`says`, `tells`": r"\b(?:said|says|told|tells)\b",
    "`goes on`": r"\b(?:go|goes|going|gone|went) on\b",
    "`lends`, `rests`, `beside`, `elsewhere`, `meanwhile`": (
        r"\b(?:lent|lends?|rests?|rested|resting|beside|elsewhere|meanwhile)\b"
    ),
    "`nobody`, `somebody`, `of its own`": (
        r"\b(?:nobody|somebody|anybody|of (?:its|yours|ours|one's) own|of yours|as one likes)\b"
    ),
    "`by then`, `at once`, `is to be`": (
        r"\b(?:by then|at once|is held|comes? of|is to be|are to be)\b"
    ),
}
"""Habits that make English hard to read, each with its pattern."""

MAX_HABITS: Final = 3.0
"""The number of these habits per 1,000 words, in all strings together and on each page."""

BRANCHES: Final = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)


@dataclass
class Found:
    """The names, texts and sizes of the package. Places are written `file:line`."""

    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    openings: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    bundles: list[str] = field(default_factory=list)
    branches: dict[str, int] = field(default_factory=dict)

    def visit(self, file: str, node: ast.AST) -> int:
        """Take a node and everything below it. Returns the number of branches in it."""
        count = int(isinstance(node, BRANCHES))
        match node:
            case ast.BoolOp(values=values):
                count += len(values) - 1
            case ast.ClassDef(name=name):
                self.classes[name].append(file)
            case ast.Expr(value=ast.Constant(value=str(words))) if OPENINGS.match(words):
                self.openings.append(f"{file}:{node.lineno}")
            case ast.Constant(value=str(words)) if words.count(" ") > 2:
                self.texts.append(words)
            case ast.Call(args=arguments):
                for each in arguments:
                    if isinstance(each, ast.Starred) and isinstance(each.value, ast.Tuple):
                        self.bundles.append(f"{file}:{each.lineno}")
        below = sum(self.visit(file, child) for child in ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.branches[f"{file}:{node.lineno} {node.name}"] = 1 + below
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return 0  # counted by itself
        return count + below


@cache
def package() -> Found:
    """The contents of all files that are not generated."""
    found = Found()
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if file not in GENERATED:
            found.visit(file, ast.parse(path.read_text()))
    return found


def habits(text: str) -> dict[str, int]:
    """Return the number of times that each habit occurs in a text."""
    counts = {
        habit: len(re.findall(pattern, text, re.IGNORECASE)) for habit, pattern in HABITS.items()
    }
    return {habit: count for habit, count in counts.items() if count}


def allowed(text: str) -> float:
    """Return the number of habits that a text may have: at least one."""
    return max(1, MAX_HABITS * len(re.findall(r"[A-Za-z']+", text)) / 1000)


def test_a_class_name_is_defined_once() -> None:
    found = {name: files for name, files in package().classes.items() if len(files) > 1}
    assert len(found) <= CLASS_NAMES_LEFT, f"{found}: see CONTRIBUTING.md"


def test_a_docstring_begins_with_its_subject() -> None:
    found = package().openings
    assert len(found) <= OPENINGS_LEFT, f"{found}: see CONTRIBUTING.md"


def test_strings_are_plain_english() -> None:
    text = "\n".join(package().texts)
    found = habits(text)
    assert sum(found.values()) <= allowed(text), f"{found}: see CONTRIBUTING.md"


def test_each_page_is_plain_english() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        found = habits(text)
        assert sum(found.values()) <= allowed(text), f"{page}: {found}: see CONTRIBUTING.md"


def test_arguments_are_not_bundled_in_an_unpacked_tuple() -> None:
    found = package().bundles
    assert len(found) <= BUNDLES_LEFT, f"{found}: see CONTRIBUTING.md"


def test_a_function_has_few_branches() -> None:
    found = {name: count for name, count in package().branches.items() if count > MAX_BRANCHES}
    assert len(found) <= LONG_FUNCTIONS_LEFT, f"{found}: see CONTRIBUTING.md"
