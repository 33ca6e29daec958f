"""The QR code of a link.

Links of machines that do not exist are judged as values, row by row.
"""

from __future__ import annotations

import pytest

from agentrt._cli.repl.sharing import qr_code, reaches_other_machines


def test_a_qr_code_is_as_many_half_lines_as_it_has_rows() -> None:
    lines = qr_code("http://agents.example:8000/?t=x")
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == (len(lines[0]) + 1) // 2
    assert {mark for line in lines for mark in line} == {"█", "▀", "▄", " "}
    assert set(lines[0]) == {"█"}, "light all around"


@pytest.mark.parametrize(
    ("link", "reaches"),
    [
        ("http://127.0.0.1:8000/?t=x", False),
        ("http://[::1]:8000/?t=x", False),
        ("http://localhost:8000/?t=x", False),
        ("http://192.168.1.7:8000/?t=x", True),
        ("https://agents.example/?t=x", True),
    ],
)
def test_there_is_a_qr_code_only_of_what_a_phone_can_open(link: str, reaches: bool) -> None:
    assert reaches_other_machines(link) is reaches
    assert bool(qr_code(link)) is reaches
