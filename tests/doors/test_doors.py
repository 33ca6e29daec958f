"""The table of what works through which door says what the tests do."""

from __future__ import annotations

from doors.table import CANNOT, DOORS, THINGS, proofs, table, written


def test_the_table_in_the_documentation_is_that_of_the_tests() -> None:
    assert written() == table(), "python tests/doors/table.py makes it"


def test_each_cell_has_a_test_or_says_why_there_is_none() -> None:
    every = {(door, thing) for door in DOORS for thing in THINGS}
    done = {(door, thing) for door, thing, _ in proofs()}
    assert done <= every, "a mark names no such door or thing"
    assert CANNOT.keys() <= every
    assert not done & CANNOT.keys(), "what cannot be is done"
    assert done | CANNOT.keys() == every, "nothing is said of a cell"
