"""Everything that an ACP agent says is shown, or is declared with a reason."""

from __future__ import annotations

import re

import pytest

from . import acp, acp_recorded
from .probe import Shown, missing, reason
from .test_codex_shown import key

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[1, 2])
def shown(request: pytest.FixtureRequest) -> Shown:
    return acp.shown(request.param)


def test_each_leaf_of_the_schema_shows_or_is_declared(shown: Shown) -> None:
    assert missing(shown, acp.DECLARED) == []


def test_no_declaration_is_idle() -> None:
    hidden = [path for v in acp.VERSIONS for path, place in acp.shown(v).items() if not place]
    paths = [*hidden, *acp_recorded.spots()]
    idle = [each for each in acp.DECLARED if not any(re.match(each, path) for path in paths)]
    assert idle == []


FREE = re.compile(r".*\.(rawInput|rawOutput)\b.*|.*\.content\[\]\..*|.*(\._|options\[\])")
"""The input and output of tools, which have any shape, and long parts that were cut out (`._`)."""
CUT = re.compile(r".*\.(rawInput|rawOutput)\b.*|.*(\._|availableCommands\[\])")
"""The same in the recordings of version 2, whose lists were cut (`<1 more>`)."""


def test_each_recorded_leaf_is_in_the_table() -> None:
    shown = acp.shown(1)
    unknown = {
        path
        for leaf in acp.recorded()
        if not shown.get(path := key(leaf, shown))
        and not FREE.fullmatch(path)
        and reason(path, acp.DECLARED) is None
    }
    assert unknown == set()


def test_each_recorded_leaf_of_version_2_shows_or_is_declared() -> None:
    """A leaf of a draft is in no stable schema, and an answer is in no table: a recorded
    conversation with another value in it leads to other effects."""
    shown = acp.shown(2)
    unknown = [
        path
        for path in acp_recorded.spots()
        if not shown.get(path)
        and not CUT.fullmatch(path)
        and reason(path, acp.DECLARED) is None
        and not acp_recorded.shows(path)
    ]
    assert unknown == []


def test_at_most_a_third_of_the_recorded_leaves_is_declared() -> None:
    """Not counting extensions, of which a driver knows some."""
    shown = acp.shown(1)
    recorded = {key(leaf, shown) for leaf in acp.recorded()}
    for paths in (recorded, set(acp_recorded.spots())):
        plain = {path for path in paths if "._meta." not in path}
        declared = [path for path in plain if reason(path, acp.DECLARED) is not None]
        assert len(declared) <= len(plain) / 3
