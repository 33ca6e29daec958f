"""Blocks of Markdown that are too long to be prose."""

from __future__ import annotations

import pytest

from inside.screen import Blocks, Renderer

HOSTILE = ("[", "*a_ ", "[a](", "|a", "`", "<", "&a;", "\u4e2d", "a\u0301*")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_block_that_is_too_long_is_shown_as_it_is_written(text: str) -> None:
    written = text * (1_000_000 // len(text))
    blocks = Blocks()
    found = [block for block, _ in [*blocks.feed(f"{written}\n\n"), *blocks.end()]]
    shown = "".join(Renderer(colour=True)(block, 80) for block in found)
    assert "".join(shown.split()) == "".join(written.split())


def test_a_block_of_usual_length_is_rendered() -> None:
    assert "**" not in Renderer(colour=True)("**bold** " * 100, 80)
