"""Everything that codex says is shown, or is declared with a reason."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from . import codex
from .ignored import BY_CODEX
from .leaves import Leaf
from .probe import Shown, missing, reason

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown() -> Shown:
    return codex.shown()


def test_each_leaf_of_codexs_schema_shows_or_is_declared(shown: Shown) -> None:
    assert missing(shown, codex.DECLARED) == []


def test_no_declaration_is_idle(shown: Shown) -> None:
    hidden = [path for path, place in shown.items() if not place]
    recorded = [key(leaf, shown) for leaf in codex.recorded()]
    paths = [*hidden, *recorded, *BY_CODEX]
    idle = [each for each in codex.DECLARED if not any(re.match(each, path) for path in paths)]
    assert idle == []


def test_each_recorded_leaf_is_in_the_table(shown: Shown) -> None:
    unknown = {
        key(leaf, shown) for leaf in codex.recorded() if not is_known(leaf, shown, codex.DECLARED)
    }
    assert unknown == set()


def test_at_most_a_third_of_the_recorded_leaves_is_declared(shown: Shown) -> None:
    """Not counting times, ids, and the messages that are declared as a whole."""
    recorded = {
        key(leaf, shown)
        for leaf in codex.recorded()
        if not leaf.path.startswith(tuple(BY_CODEX)) and not leaf.path.endswith(("At", "Ms", "Id"))
    }
    declared = [path for path in recorded if not shown.get(path)]
    assert len(declared) <= len(recorded) / 3


def key(leaf: Leaf, shown: Shown) -> str:
    named = f"{leaf.path} = {leaf.value}"
    return named if named in shown else leaf.path


def is_known(leaf: Leaf, shown: Shown, declared: Mapping[str, str]) -> bool:
    path = key(leaf, shown)
    return bool(shown.get(path)) or reason(path, declared) is not None
