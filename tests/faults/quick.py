"""How much is tried: everything where there is time (`nox -s faults`), a sample elsewhere."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

FULL = "AGENTRT_FULL" in os.environ


def chosen(numbers: Iterable[int], *, one_in: int) -> Iterator[int]:
    """All of them; in the quick form about one in so many, others each time."""
    chance = random.Random()
    for number in numbers:
        if FULL or chance.randrange(one_in) == 0:
            yield number


def mostly_slow(values: Iterable[object], *, one_in: int) -> list[Any]:
    """Parameters for a test: one in so many, always the same, is quick; the others are `slow`."""
    return [
        pytest.param(value, marks=[pytest.mark.slow] if number % one_in else [])
        for number, value in enumerate(values)
    ]
