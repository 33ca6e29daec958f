"""`--budget`: a limit on all turns of a command."""

from __future__ import annotations

import json

import pytest
from program import FAST_DEMO, Program
from test_repl import PROMPT, talking


@pytest.mark.slow
def test_a_turn_that_uses_up_the_time_ends_with_status_3_and_says_why(program: Program) -> None:
    options = ("--budget", "1s", "--output-format", "json")
    done = program.demo("/slow 600", *options, status=3)
    shown = json.loads(done.stdout)
    assert (shown["outcome"], shown["error"]["code"]) == ("cancelled", "budget_exceeded")
    assert shown["error"]["data"]["limit"] == "seconds"


@pytest.mark.parametrize("text", ["5", "5eur", "5usd,6usd", "0turns", "1.5turns", ""])
def test_a_budget_that_makes_no_sense_is_refused(program: Program, text: str) -> None:
    done = program.run("-p", "x", "--budget", text, status=2)
    assert "--budget" in done.stderr


@pytest.mark.slow
def test_what_is_spent_is_shown_in_a_conversation(program: Program) -> None:
    with talking(program, *FAST_DEMO, "--budget", "1turns") as it:
        it.line("/budget")
        it.expect("0 of 1 turns")
        it.expect(PROMPT)
        it.line("list the files")
        it.expect("`notes.txt`")
        it.expect(PROMPT)
        it.line("/budget")
        it.expect("1 of 1 turns")
        it.line("again")
        it.expect("the budget is used up (turns)")
