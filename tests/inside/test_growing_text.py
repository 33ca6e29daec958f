"""Text that grows piece by piece.

The cost and the result of many pieces are checked without the log that has them.
"""

from __future__ import annotations

import pytest

from agentrt._core.model.content import MIN_GROWTH_CHARS, GrowingText


@pytest.mark.parametrize("pieces", [0, 1, 2, 1023, 1024, 1025, 5000])
def test_growing_text_is_its_pieces_in_order(pieces: int) -> None:
    growing, parts = GrowingText("start "), [f"{n} " for n in range(pieces)]
    for number, part in enumerate(parts):
        growing.append(part)
        if number % 700 == 0:
            assert str(growing) == "start " + "".join(parts[: number + 1])
    assert str(growing) == "start " + "".join(parts)
    assert str(growing) == str(growing)


@pytest.mark.parametrize(
    "size", [1, 1000, MIN_GROWTH_CHARS - 1, MIN_GROWTH_CHARS, 3 * MIN_GROWTH_CHARS]
)
def test_growing_text_of_any_length_is_its_pieces_in_order(size: int) -> None:
    growing, whole = GrowingText(), ""
    for number in range(40):
        piece = f"{number:>{size}}"
        growing.append(piece)
        whole += piece
        assert growing.size == len(whole)
        assert growing.part(len(whole) - 1, len(whole)) == whole[-1]
    assert growing.part(size // 2, 2 * size) == whole[size // 2 : 2 * size]
    assert str(growing) == whole
