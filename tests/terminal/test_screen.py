"""The conversation on a screen, as a person has it: prompt, stream, stopping, leaving."""

from __future__ import annotations

import re
import signal
import termios

import psutil
import pytest
from program import FAST_DEMO, PATIENCE, Program, odd
from screen import (
    ALT_ENTER,
    ALT_UP,
    BACKSPACE,
    CTRL_J,
    ESCAPE,
    READY,
    UP,
    Screen,
    on_screen,
    paste,
    talking,
)

from agentrt.telemetry import read_audit


def left(it: Screen, status: int = 0) -> None:
    """It ends with this status and leaves the terminal as it was."""
    assert it.ended() == status
    assert it.is_restored()


def leave(it: Screen) -> None:
    it.until(READY)
    it.ctrl("d")
    left(it)


@pytest.mark.slow
def test_a_conversation(program: Program) -> None:
    with talking(program) as it:
        assert "agentrt 0.1.0 · demo 0.1.0 · " in it.text
        it.enter("read notes.txt")
        it.until("✓ Read notes.txt", "^  second line$", READY)
        it.enter("/slow 600")
        it.until("execute · Say nothing for 600 s", "working", "esc stops it")
        it.ctrl("c")
        it.until("⊘ execute · Say nothing for 600 s  cancelled", "^— cancelled$", READY)
        assert "process ended" not in it.text  # the keyboard's interrupt does not reach it
        leave(it)
    assert "Traceback" not in it.everything


@pytest.mark.slow
def test_the_screen_of_a_short_conversation(program: Program) -> None:
    with talking(program) as it:
        it.enter("read notes.txt:2")
        text = it.until("^  second line$", READY)
        assert re.sub("(?<=demo 0.1.0 · ).*", "FOLDER", text) == (
            "agentrt 0.1.0 · demo 0.1.0 · FOLDER\n"
            "/help · Ctrl-C stop · Ctrl-D quit · @ files · ! shell\n"
            "\n"
            "❯ read notes.txt:2\n"
            "\n"
            "✻ thought: They want to read a file: notes.txt.\n"
            "✓ Read notes.txt\n"
            "\n"
            "Lines 2 to 2 of 2 in notes.txt:\n"
            "\n"
            "  second line\n"
            "\n"
            "❯\n"
            "● ready · demo · instant · ask · 0% context"
        )
        leave(it)


@pytest.mark.slow
def test_what_is_typed_stays_while_lines_appear_above_it(program: Program) -> None:
    with talking(program, "--agent", "demo") as it:
        it.enter("/markdown")
        it.until("working")
        for letter in "a draft that is typed":
            it.type(letter)
            it.until("working|ready")
        it.until("❯ a draft that is typed$", READY)
        it.type(" on")
        it.until("❯ a draft that is typed on$")
        it.ctrl("c")
        it.until("^❯$")
        leave(it)


@pytest.mark.slow
def test_the_unfinished_line_is_seen_above_the_prompt_before_it_is_over(program: Program) -> None:
    with talking(program, *odd("pauses")) as it:
        it.enter("say something")
        it.until("^a whole line\nand half of ano$", "^❯$", "working")
        it.type("a draft")
        it.until("^and half of ano$", "^❯ a draft$")
        it.ctrl("c")
        it.until("^and half of ano$", "^— cancelled$", "^❯ a draft$", READY)
        it.ctrl("c")
        it.until("^❯$")
        leave(it)


@pytest.mark.slow
def test_a_prompt_typed_ahead_waits_is_shown_and_can_be_taken_back(program: Program) -> None:
    with talking(program) as it:
        it.enter("/slow 600")
        it.until("Say nothing")
        it.enter("read notes.txt:1")
        it.enter("read notes.txt:2")
        it.until("^⏎ read notes.txt:1$", "^⏎ read notes.txt:2$", "2 queued")
        it.type(ALT_UP)
        it.until("^❯ read notes.txt:2$", gone="⏎ read notes.txt:2")
        it.enter("")
        it.until("^⏎ read notes.txt:2$", "^❯$")
        it.type("a draft" + ALT_UP)
        it.until("^❯ a draft$", "^  read notes.txt:2$", gone="⏎ read notes.txt:2")
        it.ctrl("c")  # stops, and holds the other one back; the draft stays
        it.until("^— cancelled$", "1 paused · Enter resumes", "^  read notes.txt:2$")
        it.ctrl("c")
        it.until("^❯$")
        it.type("\r")
        it.until("^  first line$", READY)
        assert "second line" not in it.everything
        leave(it)


@pytest.mark.slow
def test_escape_stops_the_agent_too(program: Program) -> None:
    with talking(program) as it:
        it.enter("/slow 600")
        it.until("Say nothing")
        it.type(ESCAPE)
        it.until("^— cancelled$", READY)
        leave(it)


@pytest.mark.slow
def test_ctrl_c_while_it_is_being_stopped_ends_the_agent_and_stays(program: Program) -> None:
    with talking(program) as it:
        it.enter("/stubborn 600")
        it.until("cancel")
        started = psutil.Process(it.process.pid).children()
        agents = [each for each in started if "supervisor" not in str(each.cmdline())]
        assert agents
        it.ctrl("c")
        it.until("stopping", "ctrl-c ends the agent")
        it.ctrl("c")
        it.until("^— cancelled$", "the agent is being ended, as a user asked")
        it.ctrl("c")  # a finger that was too fast changes nothing
        assert psutil.wait_procs(agents, timeout=PATIENCE)[1] == []
        it.until("paused|ready", gone="again leaves")
        it.enter("read notes.txt:2")
        it.until("the agent was started again", "^  second line$", READY)
        leave(it)


@pytest.mark.slow
def test_the_word_about_leaving_goes_with_its_time(program: Program) -> None:
    with talking(program) as it:
        it.ctrl("c")
        it.until("ctrl-c again quits")
        it.type("x")
        it.until("^❯ x$", gone="again leaves")
        it.ctrl("c")
        it.until("^❯$")
        leave(it)


@pytest.mark.slow
def test_ctrl_c_clears_the_draft_and_twice_leaves(program: Program) -> None:
    with talking(program) as it:
        it.type("something")
        it.until("❯ something")
        it.ctrl("c")
        it.until("^❯$", "ctrl-c again quits")
        it.ctrl("c")
        left(it, 130)


@pytest.mark.slow
def test_a_draft_that_was_cleared_is_in_the_history(program: Program) -> None:
    with talking(program) as it:
        it.type("nearly lost")
        it.until("❯ nearly lost")
        it.ctrl("c")
        it.until("^❯$")
        it.type(UP)
        it.until("❯ nearly lost")
        it.ctrl("c")
        leave(it)


@pytest.mark.slow
def test_ctrl_d_leaves_only_on_an_empty_line(program: Program) -> None:
    with talking(program) as it:
        it.type("x")
        it.until("❯ x")
        it.ctrl("d")
        it.type("y")
        it.until("❯ xy")
        it.type(BACKSPACE * 2)
        it.until("^❯$")
        leave(it)


@pytest.mark.slow
def test_ctrl_d_while_the_agent_works_leaves_behind_its_turn(program: Program) -> None:
    with talking(program) as it:
        it.enter("/slow 1")
        it.until("Say nothing")
        it.ctrl("d")
        it.until("quits when this is done")
        left(it)
    assert "That was a tool without output while it runs." in it.everything


@pytest.mark.slow
def test_a_prompt_may_have_several_lines(program: Program) -> None:
    with talking(program) as it:
        it.type("create lines.txt with one" + ALT_ENTER + "two" + CTRL_J + "three\\")
        it.type("\r")
        it.type("four")
        it.until("^❯ create lines.txt with one\n  two\n  three\n  four$")
        it.type("\r")
        it.until("y/a/n/x[?]")
        it.enter("y")
        it.until("I created", READY)
        leave(it)
    assert (program.folder / "lines.txt").read_text() == "one\ntwo\nthree\nfour\n"


@pytest.mark.slow
def test_pasted_lines_are_one_prompt(program: Program) -> None:
    with talking(program) as it:
        it.type(paste("create p.txt with a\r\nb\rc"))
        it.until("^❯ create p.txt with a\n  b\n  c$")
        assert "working" not in it.text
        it.ctrl("c")
        it.until("^❯$")
        leave(it)


@pytest.mark.slow
def test_the_history_is_kept_per_folder_and_can_be_searched(program: Program) -> None:
    with talking(program) as it:
        it.enter("read notes.txt:1")
        it.until("first line", READY)
        it.enter("list the files")
        it.until("notes.txt", READY)
        leave(it)
    with talking(program) as it:
        it.type(UP)
        it.until("❯ list the files$")
        it.type(UP)
        it.until("❯ read notes.txt:1$")
        it.ctrl("c")
        it.until("^❯$")
        it.ctrl("r")
        it.type("list")
        it.until("❯ list the files$")
        it.type("\r")
        it.until("❯ list the files$")
        it.ctrl("c")
        it.until("^❯$")
        leave(it)
    other = program.folder.parent / "other"
    other.mkdir()
    with talking(program, *FAST_DEMO, "--cwd", str(other)) as it:
        it.type(UP + "x")
        it.until("^❯ x$")
        it.ctrl("c")
        leave(it)
    for file in (program.home / ".local/state/agentrt/history").iterdir():
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was(
    program: Program, number: signal.Signals
) -> None:
    with talking(program) as it:
        it.enter("/slow 600")
        it.until("Say nothing")
        agents = psutil.Process(it.process.pid).children(recursive=True)
        it.process.send_signal(number)
        if number == signal.SIGINT:  # as Ctrl-C: the turn first
            it.until("^— cancelled$", READY)
            it.process.send_signal(number)
            it.until("ctrl-c again quits")
            it.process.send_signal(number)
        left(it, 128 + number)
    assert psutil.wait_procs(agents, timeout=10)[1] == []
    assert "Traceback" not in it.everything


@pytest.mark.slow
def test_two_signals_leave_the_terminal_as_it_was(program: Program) -> None:
    with talking(program) as it:
        it.enter("/stubborn 600")
        it.until("cancel")
        it.process.send_signal(signal.SIGTERM)
        it.until("leaving")
        it.process.send_signal(signal.SIGTERM)
        it.until_told("$")
        it.process.send_signal(signal.SIGTERM)
        it.ended()
        assert it.is_restored()


@pytest.mark.slow
def test_a_terminal_that_is_gone_ends_it(program: Program) -> None:
    audit = program.folder / "audit.jsonl"
    with talking(program, *FAST_DEMO, "--audit", str(audit)) as it:
        it.enter("/flood 1000000")
        it.until("line 1")
        agents = psutil.Process(it.process.pid).children(recursive=True)
        it.hang_up()
        assert it.process.wait(20) == 128 + signal.SIGHUP
    assert psutil.wait_procs(agents, timeout=10)[1] == []
    records = read_audit(audit)
    assert [each.title for each in records if each.kind == "action"] == ["prompt"]


@pytest.mark.slow
def test_an_agent_that_does_not_start_is_an_error(program: Program) -> None:
    with on_screen(program, *odd("locked")) as it:
        it.until_told("requires a login first: Log in first")
        left(it, 1)
    assert "no key in the environment" in it.everything


@pytest.mark.slow
def test_prompts_typed_before_the_agent_is_ready_wait_for_it(program: Program) -> None:
    with on_screen(program, *FAST_DEMO) as it:
        it.type("read notes.txt:2\r")
        it.until("^  second line$", READY)
        leave(it)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    ["drawing.Drawing.prompt", pytest.param("interface.Interface._prefix", marks=pytest.mark.slow)],
)
def test_an_error_of_ours_leaves_the_terminal_as_it_was(program: Program, mistake: str) -> None:
    """Whether it is made on Trio's side or in the terminal's thread."""
    folder = program.folder.parent / "broken"
    folder.mkdir()
    module, _, name = mistake.partition(".")
    (folder / "sitecustomize.py").write_text(
        f"from agentrt._cli.screen import {module}\n"
        f"def broken(self, *args): raise RuntimeError('a mistake of ours')\n"
        f"{module}.{name} = broken\n"
    )
    program.env["PYTHONPATH"] = str(folder)
    with on_screen(program, *FAST_DEMO) as it:
        it.type("hello\r")
        assert it.ended() == 1
        assert it.is_restored()
    assert it.everything.count("RuntimeError: a mistake of ours") == 1


@pytest.mark.slow
def test_a_terminal_that_takes_nothing_does_not_keep_it_from_ending(program: Program) -> None:
    with talking(program) as it:
        it.enter("/flood 1000000")
        it.until("line 1")
        agents = psutil.Process(it.process.pid).children(recursive=True)
        it.process.send_signal(signal.SIGTERM)  # and nobody reads on
        assert it.process.wait(PATIENCE) == 143
        assert termios.tcgetattr(it.master) == it.settings
    assert psutil.wait_procs(agents, timeout=PATIENCE)[1] == []
