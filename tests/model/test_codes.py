"""Every code of a notice or an error in the source has a meaning in the reference, and so has every
cause of an error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, get_args

import pytest

import agentrt
from agentrt.events import Cause, Outcome

PACKAGE: Final = Path(agentrt.__file__).parent
REFERENCE: Final = Path(__file__).parents[2] / "docs/reference/codes.md"


def table(heading: str) -> dict[str, str]:
    """The codes and their meanings, below this heading of the reference."""
    _, _, section = REFERENCE.read_text().partition(f"\n## {heading}\n")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    return dict(rows)


NOTICES: Final = table("Notices")
ERRORS: Final = table("Error codes")
LEVELS: Final = {"info", "warning", "error"}


def calls() -> Iterator[tuple[str, ast.Call]]:
    for file in PACKAGE.rglob("*.py"):
        if {"testing", "demo", "_cli"} & set(file.relative_to(PACKAGE).parts):
            continue  # scripts and displays make none of their own
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                match node.func:
                    case ast.Name(id=name) | ast.Attribute(attr=name):
                        yield name, node


def constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def used_notices() -> set[str]:
    """The codes that follow a level among the arguments of any call, whatever is called."""
    found = set()
    for name, call in calls():
        for level, code in pairwise(map(constant, call.args)):
            if level in LEVELS and code is not None and code.isidentifier():
                found.add(code)
        if name == "_drop" and call.args:  # of the ACP driver, at one level
            found |= {constant(call.args[0])} - {None}
    return {code for code in found if code is not None}


def used_errors() -> set[str]:
    makers = ("ErrorInfo", "_fail")  # an error, and a start that fails with one
    found = {constant(call.args[0]) for name, call in calls() if name in makers and call.args}
    return {code for code in found if code is not None}


@pytest.mark.slow
def test_every_notice_in_the_source_has_a_meaning() -> None:
    used = used_notices()
    assert len(used) > 60
    assert used - NOTICES.keys() == set()


@pytest.mark.slow
def test_every_error_in_the_source_has_a_meaning() -> None:
    used = used_errors()
    assert len(used) > 10
    assert used - ERRORS.keys() == set()


@pytest.mark.parametrize("table", [NOTICES, ERRORS], ids=["notices", "errors"])
def test_no_code_has_a_meaning_and_is_not_in_the_source(table: dict[str, str]) -> None:
    text = "".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    made = {"duplicate_response", "foreign_response"}  # f"{defect}_response"
    assert [code for code in table if f'"{code}"' not in text and code not in made] == []


def test_a_meaning_is_a_sentence() -> None:
    for meaning in (*NOTICES.values(), *ERRORS.values()):
        assert meaning[0].isupper()
        assert meaning.endswith(".")


def test_every_outcome_is_in_the_reference() -> None:
    text = REFERENCE.read_text()
    assert [outcome for outcome in get_args(Outcome) if f"| `{outcome}` |" not in text] == []


def test_every_cause_is_in_the_reference() -> None:
    assert table("Causes of errors").keys() == set(get_args(Cause))
