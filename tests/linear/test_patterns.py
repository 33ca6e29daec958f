"""Every regular expression of agentrt takes time in proportion to its text.

Each pattern is found by itself, in the modules and in the page. A matcher that counts steps runs it
on texts that are made from the pattern: for twice the text it may take little more than twice the
steps. A new pattern that takes the square of the time fails here by the name of where it is.
"""

from __future__ import annotations

import itertools
import re
import warnings
from typing import Final, NamedTuple

import pytest

from .found import Found, Unreadable, in_python, in_the_page, literals
from .matcher import Program, TooManySteps
from .pumps import ENDS, pumps

ROOM: Final = 2.6
"""How many times the steps of the first text the second may take: 2 is linear, 4 is quadratic."""
FEW: Final = 8
"""Steps for a character below which nothing is compared."""
MANY: Final = 400
"""Steps for a character that are too many at any size."""


class Effort(NamedTuple):
    """How much is tried: the sizes of both texts in characters, how they end, and how many."""

    sizes: tuple[int, int]
    ends: tuple[str, ...]
    most: int | None


QUICK: Final = Effort((80, 160), ("\x00",), 12)
FULL: Final = Effort((150, 300), ENDS, None)

MADE: Final = {
    Unreadable(
        "agentrt._core.agents.find", "agent.installed_as or ''"
    ): "of the catalogue; for a path",
    Unreadable("agentrt._core.config", "pattern"): "the operator's own `trace.redact`",
    Unreadable("agentrt._cli.tracing", "pattern"): "the operator's own `trace.redact`",
    Unreadable(
        "agentrt._base.listing", "translate(_TOKEN.sub(_for_fnmatch, part))"
    ): "fnmatch's, which are linear; tested below",
    Unreadable(
        "agentrt._core.model.remembered", "pattern"
    ): "the words of a prompt of less than 20 characters",
    Unreadable(
        "agentrt._core.permissions.programs", "f'(?<![A-Za-z0-9_.-])(?:{names})(?![A-Za-z0-9_-])'"
    ): "a choice of escaped names",
    Unreadable(
        "agentrt._core.permissions.programs", "'.*'.join(map(re.escape, parts))"
    ): "matched against names of agentrt's own",
    Unreadable(
        "agentrt._core.permissions.programs", "pattern"
    ): "matched against agentrt's own paths",
    Unreadable(
        "agentrt._core.permissions.request_facts",
        "f'\\\\$(?:{name}(?![A-Za-z0-9_])|\\\\{{{name}\\\\}})'",
    ): "the name of a variable",
    Unreadable(
        "agentrt._core.process.inherited",
        "'|'.join((f'(?:{prefix})(?:{rest})' for prefix, rest in words))",
    ): "its result is looked at like a global",
    Unreadable("agentrt._core.trace.secrets", "pattern.encode()"): "its results are globals",
    Unreadable("agentrt.demo.search", "re.escape(text)"): "one literal",
    Unreadable("agentrt.demo.search", "re.escape(text.encode())"): "one literal",
    Unreadable(
        "agentrt.demo.words", "pattern.replace('_', '(?<=\\\\S)\\\\s++')"
    ): "its results are globals",
}
"""Patterns that are put together while a program runs, and why each is harmless."""


def worst(found: Found, effort: Effort = FULL) -> str | None:
    """A text for which a pattern takes too long, and how much longer than for half of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JavaScript's classes have brackets in them
        program = Program(found.pattern, found.flags)
    tried = itertools.product(pumps(program.tree, program.flags), effort.ends)
    for (front, body), end in itertools.islice(tried, effort.most):
        first, second = (
            steps(program, front, body, end, size, anchored=found.anchored) for size in effort.sizes
        )
        if second is None or (second > FEW * effort.sizes[1] and second > ROOM * (first or 1)):
            return f"{front!r} + {body!r} * n + {end!r}: {first} steps, then {second}"
    return None


def steps(
    program: Program, front: str, body: str, end: str, size: int, *, anchored: bool
) -> int | None:
    """None: far too many."""
    text = (front + body * (1 + size // len(body)))[: len(front) + size] + end
    try:
        return program.search(text, MANY * len(text), anchored=anchored)
    except TooManySteps:
        return None


def not_linear(effort: Effort) -> dict[str, str]:
    """The patterns of agentrt, by place, for which some text takes too many steps."""
    every = [*in_python()[0], *in_the_page()[0]]
    return {found.where: found.pattern for found in every if worst(found, effort) is not None}


@pytest.mark.slow
def test_each_pattern_is_linear() -> None:
    assert not_linear(QUICK) == {}


@pytest.mark.slow
def test_each_pattern_is_linear_on_every_text_made_from_it() -> None:
    assert not_linear(FULL) == {}


@pytest.mark.slow
def test_patterns_are_found_in_all_places() -> None:
    python, javascript = in_python()[0], in_the_page()[0]
    modules = {found.where.rpartition(".")[0] for found in python}
    assert {
        "agentrt._core.trace.secrets",
        "agentrt._core.permissions.shell",
        "agentrt.demo.words",
    } <= modules
    assert {found.where.partition(":")[0] for found in javascript} >= {"ansi.ts", "parse.ts"}
    assert len(python) > 120
    assert len(javascript) > 40


@pytest.mark.slow
def test_no_pattern_is_made_while_the_program_runs_but_those_that_are_known() -> None:
    assert {*in_python()[1], *in_the_page()[1]} <= {*MADE}


QUADRATIC: Final = (
    r"\s+$",
    r"a+b",
    r"(?:a|a)*b",
    r"(?:\w+\.)*\w+@",
    r"[a-z]+://\S*@",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END",
    r"\"(?:[^\"\\]+|\\+[^\"\\])+\"x",
    r"^(?:\w+-?)*$",
    r"x.*y.*z",
)


@pytest.mark.parametrize("pattern", QUADRATIC)
def test_a_pattern_that_is_not_linear_is_noticed(pattern: str) -> None:
    assert worst(Found("here", pattern, re.DOTALL, anchored=False), QUICK) is not None


LINEAR: Final = (
    r"(?<!\s)\s++$",
    r"a++b",
    r"[a-z]+",
    r"\bkey=\w{3,}",
    r"^(?:ab|ac)*+d",
    r"\d{1,3}x",
)


@pytest.mark.parametrize("pattern", LINEAR)
def test_a_pattern_that_is_linear_passes(pattern: str) -> None:
    assert worst(Found("here", pattern, 0, anchored=pattern == "a++b")) is None


@pytest.mark.parametrize(
    ("pattern", "text", "end"),
    [
        (r"(a|ab)(c|bcd)(d*)", "abcd", 4),
        (r"(?P<q>['\"])[^'\"]*(?P=q)", "'it'", 4),
        (r"(?<=x)y|xz?", "xz", 2),
        (r"(?:(?!b).)*+b", "aaab", 4),
        (r"(?i:KEY)=\w+?;", "key=abc;", 8),
        (r"(x)?(?(1)y|z)", "xy", 2),
        (r"a{2,3}?b", "aaab", 4),
        (r"^a$\n^b$", "a\nb", 3),
    ],
)
def test_the_counting_matcher_finds_what_re_finds(pattern: str, text: str, end: int) -> None:
    match = re.match(pattern, text, re.MULTILINE)
    assert match is not None
    assert match.end() == end
    assert Program(pattern, re.MULTILINE).end(text) == end


def test_literals_of_javascript_are_found_and_nothing_else() -> None:
    source = (
        "const a = /x\\/[/]y/gi; // /no/\nconst b = 4 / 2 / 1; f(`/t/ ${s.replace(/z/, '')} /u/`);"
    )
    assert [(pattern, flags) for _, pattern, flags in literals(source)] == [
        ("x\\/[/]y", "gi"),
        ("z", ""),
    ]
