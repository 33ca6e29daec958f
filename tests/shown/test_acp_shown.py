"""Everything that an ACP agent says is shown, or is declared with a reason."""

from __future__ import annotations

import re

import pytest

from . import acp
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
    idle = [each for each in acp.DECLARED if not any(re.match(each, path) for path in hidden)]
    assert idle == []


def test_each_recorded_leaf_is_in_the_table() -> None:
    """The input and output of tools have any shape, and long parts were cut out (`._`)."""
    shown = acp.shown(1)
    free = re.compile(r".*\.(rawInput|rawOutput)\b.*|.*\.content\[\]\..*|.*(\._|options\[\])")
    unknown = {
        path
        for leaf in acp.recorded()
        if not shown.get(path := key(leaf, shown))
        and not free.fullmatch(path)
        and reason(path, acp.DECLARED) is None
    }
    assert unknown == set()


def test_at_most_a_third_of_the_recorded_leaves_is_declared() -> None:
    """Not counting extensions, of which a driver knows some."""
    shown = acp.shown(1)
    recorded = {key(leaf, shown) for leaf in acp.recorded() if "._meta." not in leaf.path}
    declared = [path for path in recorded if reason(path, acp.DECLARED) is not None]
    assert len(declared) <= len(recorded) / 3
