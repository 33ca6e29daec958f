"""One-shot mode on a terminal: progress, questions, and what may count as an answer."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from program import FAST_DEMO, INERT, Program, Terminal, odd


@contextmanager
def asked(program: Program, prompt: str, *arguments: str) -> Iterator[Terminal]:
    """A terminal on which the demo agent has asked its question, and time has passed."""
    with program.terminal(*FAST_DEMO, "-p", prompt, *arguments) as terminal:
        terminal.expect("y/a/n/x? ")
        time.sleep(INERT)
        yield terminal


@pytest.mark.slow
@pytest.mark.door("one-shot", "permission")
def test_a_question_shows_what_would_be_done_and_is_answered_by_a_letter(
    program: Program,
) -> None:
    with asked(program, "edit notes.txt replace second by 2nd") as terminal:
        assert "Allow this? │ Edit notes.txt\n" in terminal.shown
        assert "  │ -second line\n  │ +2nd line\n" in terminal.shown
        assert "  y  allow once   │ “Allow”\n" in terminal.shown
        terminal.line("y")
        terminal.expect("I replaced 1 place in `notes.txt`.")
        assert terminal.ended() == 0
    assert (program.folder / "notes.txt").read_text() == "first line\n2nd line\n"


@pytest.mark.slow
def test_nothing_is_allowed_before_all_of_it_was_shown(program: Program) -> None:
    with program.terminal(*odd("shows"), "-p", "go") as terminal:
        shown = terminal.expect(r"Allow this\?.*Enter/d\? ", regex=True)[0]
        assert "  │ command: line 0\n  │     line 1\n" in shown
        assert "  │     line 15\n  … 21 more …\n  │     line 37\n" in shown
        assert "  │ -a\n  │ +b\n  │ text: why␛ not\n" in shown  # the end of it
        assert "  Enter  show more (29 rows left)\n  d  show all\n  n  reject\n" in shown
        time.sleep(INERT)
        for answer in ("y", "2", "yes"):
            terminal.line(answer)
            terminal.expect("Not yet: read all of it first.")
            terminal.expect("Enter/d? ")
        terminal.line("")
        assert "line 39" in terminal.expect(r"line 16\n.*Enter/d\? ", regex=True)[0]
        terminal.line("")
        shown = terminal.expect(r"  │ text: why␛ not\n.*y/2/3/n\? ", regex=True)[0]
        assert "  2  allow once   │ “Sure too”\n  3  another answer   │ “Neither”\n" in shown
        terminal.line("2")
        terminal.expect("chosen: fine")
        assert terminal.ended() == 0


@pytest.mark.slow
def test_what_is_not_shown_yet_can_be_rejected(program: Program) -> None:
    with program.terminal(*odd("shows"), "-p", "go") as terminal:
        terminal.expect("Enter/d? ")
        time.sleep(INERT)
        terminal.line("n")
        terminal.expect("chosen: no")
        assert terminal.ended() == 0


@pytest.mark.slow
def test_all_of_a_long_question_is_shown_if_asked_for(program: Program) -> None:
    with program.terminal(*odd("shows"), "-p", "go") as terminal:
        terminal.expect("Enter/d? ")
        time.sleep(INERT)
        terminal.line("d")
        shown = terminal.expect(r"line 0\n.*line 39\n.*y/2/3/n\? ", regex=True)[0]
        assert "  │ change of /x.py\n  │ @@ -1 +1 @@\n  │ -a\n  │ +b\n  │ text: why␛ not\n" in shown
        terminal.line("y")
        terminal.expect("chosen: ok")
        assert terminal.ended() == 0


@pytest.mark.slow
def test_anything_else_is_asked_again(program: Program) -> None:
    with asked(program, "create new.txt with text") as terminal:
        for line in ("", "yess", "y y", "ok", "7", "-1"):
            terminal.line(line)
            terminal.expect("Please answer y, a, n or x.")
            terminal.expect("y/a/n/x? ")
        terminal.line("x")
        terminal.expect("✗ Create new.txt: denied")
        assert terminal.ended() == 0
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_the_end_of_the_input_is_a_no(program: Program) -> None:
    with asked(program, "create new.txt with text") as terminal:
        terminal.ctrl("d")
        terminal.expect("Rejected.")
        assert terminal.ended() == 0
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_what_was_typed_before_the_question_answers_nothing(program: Program) -> None:
    with program.terminal(*FAST_DEMO, "-p", "create new.txt with text") as terminal:
        terminal.line("y")
        terminal.line("y")
        terminal.expect("y/a/n/x? ")
        terminal.line("y")
        terminal.expect("Typed before the question could be read; please answer now.")
        terminal.expect("y/a/n/x? ")
        assert not (program.folder / "new.txt").exists()
        time.sleep(INERT)
        terminal.line("y")
        terminal.expect("I created")
        assert terminal.ended() == 0


@pytest.mark.slow
def test_an_interrupt_at_a_question_cancels_the_turn(program: Program) -> None:
    with asked(program, "create new.txt with text") as terminal:
        terminal.ctrl("c")
        assert terminal.ended() == 130
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_an_interrupt_in_a_slow_tool_cancels_the_turn(program: Program) -> None:
    with program.terminal(*FAST_DEMO, "-p", "/slow 600") as terminal:
        terminal.expect("→ Say nothing for 600 s")
        terminal.ctrl("c")
        terminal.expect("^C\n")
        terminal.expect("✗ Say nothing for 600 s: cancelled")
        assert terminal.ended() == 130
    assert terminal.shown.endswith("\n")


@pytest.mark.slow
def test_nobody_is_asked_what_a_rule_allows(program: Program) -> None:
    with program.terminal(*FAST_DEMO, "-p", "run date", "--allow", "Bash(date)") as terminal:
        assert terminal.ended() == 0
    assert "Allow this?" not in terminal.shown
    assert "→ Run date" in terminal.shown


def test_nobody_is_asked_where_nothing_is_allowed(program: Program) -> None:
    flags = ("--permissions", "deny")
    with program.terminal(*FAST_DEMO, "-p", "run date", *flags) as terminal:
        terminal.expect("agentrt: rejected: Run date (see --permissions and --allow)")
        assert terminal.ended() == 0


@pytest.mark.slow
def test_a_form_is_filled_field_by_field_even_where_all_is_allowed(program: Program) -> None:
    flags = ("--permissions", "allow-all", "--no-sandbox")
    with program.terminal(*FAST_DEMO, "-p", "/form", *flags) as terminal:
        terminal.expect("│ Place: ")
        time.sleep(INERT)
        terminal.line("")
        terminal.expect("An answer is required.")
        terminal.line("Rome")
        terminal.expect("│ Days (a number; Enter for 3): ")
        terminal.line("99")
        terminal.expect("At most 14.")
        terminal.line("")
        terminal.expect("  │ 2  fahrenheit\n")
        terminal.line("2")
        terminal.expect("│ With rain (y or n; Enter for y): ")
        terminal.line("n")
        terminal.expect("│ Shown (numbers separated by commas; Enter to skip): ")
        terminal.line("1, 3")
        told = terminal.expect("```json\n(.*?)```", regex=True)[1]
        assert terminal.ended() == 0
    assert json.loads(told) == {
        "place": "Rome",
        "days": 3,
        "unit": "fahrenheit",
        "rain": False,
        "shown": ["wind", "pressure"],
    }


@pytest.mark.slow
def test_an_answer_in_a_pipe_is_asked_about_on_the_terminal(program: Program) -> None:
    """The prompt comes through a pipe, the answer goes into one, the question to the terminal."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    flags = (*FAST_DEMO, "--permissions", "ask")
    with program.terminal(*flags, **streams) as terminal:
        assert terminal.process.stdin is not None
        assert terminal.process.stdout is not None
        terminal.process.stdin.write(b"create new.txt with text")
        terminal.process.stdin.close()
        terminal.expect("y/a/n/x? ")
        time.sleep(INERT)
        terminal.line("y")
        assert terminal.process.stdout.read() == b"I created `new.txt`.\n"
        assert terminal.ended() == 0


# --- what an agent can do to the terminal


@pytest.mark.slow
def test_an_agent_has_no_power_over_the_terminal_or_the_question(program: Program) -> None:
    with program.terminal(*odd("escapes"), "-p", "go") as terminal:
        terminal.expect("y/n? ")
        time.sleep(INERT)
        terminal.line("n")
        terminal.expect("chosen: no")
        assert terminal.ended() == 0
    shown = terminal.raw.decode()
    ours = ("\x1b[1m", "\x1b[2m", "\x1b[0m")
    for escape in ours:
        shown = shown.replace(escape, "")
    assert not set("\x1b\x9b\x07\u202e\u200b") & set(shown)
    assert "\r" not in shown.replace("\r\n", "\n")
    # what the options do is told in our words; what the agent says stands behind a bar
    lines = terminal.shown[terminal.shown.index("Allow this?") :].splitlines()
    assert any(line.startswith("  y  allow once   │ “Reject␛[2Jwiped") for line in lines)
    assert any(line.startswith("  n  reject   │ “Allow”") for line in lines)
    assert any("  │ command: rm -rf /␛[2Jwiped" in line for line in lines)
    assert [line for line in lines if line.startswith("Allow? [y]")] == []


@pytest.mark.slow
def test_a_terminal_may_want_no_colour(program: Program) -> None:
    for setting in ({"NO_COLOR": "1", "TERM": "xterm"}, {"NO_COLOR": "", "TERM": "dumb"}):
        program.env |= setting
        with program.terminal(*FAST_DEMO, "-p", "list the files") as terminal:
            assert terminal.ended() == 0
        assert "→ List ." in terminal.shown
        assert b"\x1b" not in terminal.raw


def test_json_on_a_terminal_is_json_without_power(program: Program) -> None:
    flags = ("--permissions", "deny", "--output-format", "json")
    with program.terminal(*odd("escapes"), "-p", "go", *flags) as terminal:
        terminal.expect("\\u009b31mred \\u202egnp.exe")
        assert terminal.ended() == 0
