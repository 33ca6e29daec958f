"""Keys and colours of the user's own, from the configuration."""

from __future__ import annotations

import pytest
from program import FAST_DEMO, Program
from screen import READY, talking

pytest.importorskip("prompt_toolkit", reason='pip install "agentrt[repl]"')


@pytest.mark.slow
def test_a_chosen_key_and_colour_take_effect(program: Program) -> None:
    program.env["AGENTRT_TERMINAL_KEYS"] = '{"expand": "f2", "mode": "f3"}'
    program.env["AGENTRT_TERMINAL_COLORS"] = '{"you": "bright-blue"}'
    with talking(program) as it:
        it.type("\x1b[12~")
        it.until("nothing to expand")
        it.enter("hello")
        it.until("context", READY)
        assert b"\x1b[94m\xe2\x9d\xaf hello" in it.raw
        it.enter("/help")
        it.until_told("F2 +show the last shortened text in full")
        it.type("q")
        it.until("context", READY)
        it.ctrl("d")
        assert it.ended() == 0


def test_a_wrong_key_ends_with_a_sentence(program: Program) -> None:
    program.env["AGENTRT_TERMINAL_KEYS"] = '{"expnd": "f2"}'
    done = program.run(*FAST_DEMO, "-p", "hello", status=2)
    assert "terminal" in done.stderr
    assert "expnd" in done.stderr
