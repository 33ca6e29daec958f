"""The simulation can fail: each of these mistakes it must find, within so many seeds."""

from __future__ import annotations

import pytest

from faults.quick import mostly_slow

from .defects import DEFECTS, Change, Defect
from .run import Result, run

BUDGET = 1000
"""Seeds, of which most defects need a dozen."""


def search(defect: Defect) -> Result | None:
    with defect.planted():
        for seed in range(BUDGET):
            for driver in defect.drivers:
                result = run(driver, seed, store=defect.store)
                if result.violation is not None:
                    return result
    return None


@pytest.mark.slow
@pytest.mark.parametrize("defect", mostly_slow(DEFECTS, one_in=10), ids=lambda defect: defect.name)
def test_the_simulation_finds(defect: Defect) -> None:
    found = search(defect)
    assert found is not None, f"{BUDGET} seeds did not show that {defect.name}"
    fine = run(found.driver, found.seed, store=defect.store)
    assert fine.violation is None, f"also without the defect: {fine.violation}"


def test_there_are_at_least_twelve_defects_of_different_names() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 12


def test_a_defect_whose_place_is_gone_is_an_error() -> None:
    [change] = DEFECTS[0].changes
    gone = Defect("gone", (Change(change.owner, "not_there", change.wrong),))
    with pytest.raises(AttributeError, match="not_there"), gone.planted():
        pass
