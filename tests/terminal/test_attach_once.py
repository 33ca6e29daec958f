"""`agentrt attach -p`: one prompt to a session of a server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from program import FAST_DEMO, INERT, PATIENCE, Program, Terminal, read_some
from test_attach import attached, kill
from test_oneshot import events
from test_repl import PROMPT
from test_serve import Served, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def served(program: Program) -> Iterator[Served]:
    with serving(program, *FAST_DEMO) as it:
        it.link()
        yield it


def once(program: Program, prompt: str, *arguments: str, status: int | None = 0) -> Any:
    return program.run("attach", "-p", prompt, *arguments, status=status)


def sent(
    program: Program, prompt: str, *arguments: str, session: bool = False
) -> subprocess.Popen[bytes]:
    command = ("attach", "-p", prompt, *arguments)
    return program.start(*command, stdin=subprocess.DEVNULL, start_new_session=session)


def asked(program: Program, prompt: str, *arguments: str, status: int | None = 0) -> Any:
    """The one object that it writes."""
    done = once(program, prompt, *arguments, "--output-format", "json", status=status)
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def waits(it: Terminal, prompt: str) -> None:
    """Wait until that prompt is in the queue."""
    there = f"1  {prompt}"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        it.line("/queue")
        if it.expect(rf"No queued prompts|{re.escape(there)}", regex=True)[0] == there:
            return
        time.sleep(0.1)
    raise AssertionError(f"{prompt!r} does not wait:\n{it.shown}")


@pytest.mark.door("attach-once", "prompt")
@pytest.mark.usefixtures("served")
def test_the_answer_stands_on_standard_output_and_nothing_else(program: Program) -> None:
    done = once(program, "list the files")
    assert done.stdout == "In this folder:\n\n- `notes.txt` 23 B\n"
    assert done.stderr == ""


@pytest.mark.door("attach-once", "resume")
@pytest.mark.usefixtures("served")
def test_a_second_prompt_goes_to_the_same_session_which_is_seen_by_others(program: Program) -> None:
    first = asked(program, "list the files")
    second = asked(program, "read notes.txt", "--session", first["session"][:8])
    assert second["session"] == first["session"] == asked(program, "/title x")["session"]
    assert (second["agent"], second["outcome"]) == ("demo", "completed")
    assert second["text"].endswith("second line\n```")
    assert second["duration"] > 0
    with attached(program) as it:
        it.expect("> list the files")
        it.expect("> read notes.txt")


@pytest.mark.usefixtures("served")
def test_an_agent_that_is_named_gets_a_session_of_its_own(program: Program) -> None:
    first = asked(program, "list the files")
    second = asked(program, "list the files", *FAST_DEMO)
    assert first["session"] != second["session"]
    done = once(program, "list the files")
    assert f"in session {second['session'][:8]}, the newest open one" in done.stderr


@pytest.mark.usefixtures("served")
def test_the_prompt_may_come_on_standard_input(program: Program) -> None:
    assert "second line" in program.run("attach", stdin="read notes.txt:2-2").stdout
    assert "no prompt" in program.run("attach", stdin="", status=2).stderr


@pytest.mark.door("attach-once", "stream")
@pytest.mark.usefixtures("served")
def test_stream_json_has_the_events_from_the_prompt_to_its_end(program: Program) -> None:
    before = asked(program, "list the files")
    told = events(once(program, "read notes.txt", "--output-format", "stream-json").stdout)
    assert [each["seq"] for each in told] == list(range(told[0]["seq"], told[-1]["seq"] + 1))
    [begun] = [each for each in told if each["kind"] == "turn.started"]
    assert begun["prompt"] == [{"type": "text", "text": "read notes.txt"}]
    assert (told[-1]["kind"], told[-1]["turn"]) == ("turn.ended", begun["turn"])
    assert begun["turn"] != before["turn"]


@pytest.mark.usefixtures("served")
def test_the_last_message_goes_to_a_file(program: Program) -> None:
    once(program, "read notes.txt:2-2", "--last-message", "../answer.md")
    assert "second line" in (program.folder / "../answer.md").read_text()


@pytest.mark.usefixtures("served")
def test_a_turn_that_fails_and_one_that_times_out_have_their_exit_codes(program: Program) -> None:
    failed = asked(program, "/error", status=1)
    assert failed["outcome"] == "failed"
    late = asked(program, "/slow", "--timeout", "0.5", status=3)
    assert (late["outcome"], late["error"]["code"]) == ("timed_out", "timed_out")
    assert asked(program, "list the files")["outcome"] == "completed"


def test_what_nobody_can_send_is_said_in_the_format_that_was_asked_for(program: Program) -> None:
    no_server = asked(program, "go", status=1)
    assert "you have no running server" in no_server["error"]["message"]
    assert no_server["error"]["code"] == "server_not_found"
    with serving(program, *FAST_DEMO) as served:
        served.link()
        unknown = asked(program, "go", "--session", "nothing", status=4)
        assert unknown["error"]["code"] == "session_not_found"
        agent = asked(program, "go", "--agent", "nobody", status=4)
        assert agent["agent"] == "nobody"
        assert (
            "--allow is set on the server"
            in program.run("--allow", "Read", "attach", "-p", "go", status=2).stderr
        )


@pytest.mark.usefixtures("served")
def test_a_prompt_after_a_stopped_turn_waits_for_resume_and_gets_its_own_answer(
    program: Program,
) -> None:
    with attached(program, *FAST_DEMO) as it:
        it.expect(PROMPT)
        it.line("/slow 60")
        it.expect("Say nothing")
        with sent(program, "read notes.txt:2-2") as process:
            waits(it, "read notes.txt:2-2")
            it.ctrl("c")  # pauses every prompt that waits
            it.expect("— cancelled")
            it.expect(PROMPT)
            it.line("")  # resumes them
            out, _ = process.communicate(timeout=PATIENCE)
    assert "second line" in out.decode()
    assert "nothing" not in out.decode()
    assert process.returncode == 0


@pytest.mark.door("attach-once", "cancel")
@pytest.mark.usefixtures("served")
def test_a_signal_cancels_its_own_turn_and_leaves_the_session(program: Program) -> None:
    with sent(program, "/slow", "--output-format", "stream-json") as process:
        while b"Say nothing" not in (said := read_some(process.stdout)):
            assert said
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
    end = events(out.decode())[-1]
    assert (end["kind"], end["outcome"], end["by"]) == ("turn.ended", "cancelled", "user")
    assert process.returncode == 130
    assert asked(program, "list the files")["outcome"] == "completed"


@pytest.mark.usefixtures("served")
def test_a_signal_takes_a_waiting_prompt_back_and_leaves_the_turn_of_another(
    program: Program,
) -> None:
    with attached(program, *FAST_DEMO) as it:
        it.expect(PROMPT)
        it.line("/slow 60")
        it.expect("Say nothing")
        with sent(program, "read notes.txt") as process:
            waits(it, "read notes.txt")
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=PATIENCE)
        assert (out, process.returncode) == (b"", 143)
        it.line("/queue")
        it.expect("No queued prompts.")
        it.ctrl("c")
        it.expect("— cancelled")


@pytest.mark.usefixtures("served")
def test_who_reads_no_more_has_the_turn_cancelled(program: Program) -> None:
    with sent(program, "/flood 2000000") as process:
        read_some(process.stdout)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
    with attached(program) as it:
        it.expect("cancelled")


@pytest.mark.door("attach-once", "permission")
@pytest.mark.usefixtures("served")
def test_a_question_is_asked_where_there_is_a_terminal(program: Program) -> None:
    with program.terminal("attach", "-p", "run echo asked") as it:
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        it.line("n")
        assert it.ended() == 0


@pytest.mark.usefixtures("served")
def test_a_question_waits_for_others_where_there_is_no_terminal(program: Program) -> None:
    with sent(program, "run echo asked", session=True) as process:
        said = b""
        while b"waiting for another client" not in said:  # its session is there by then
            said += read_some(process.stderr)
        with attached(program) as it:
            it.expect("y/a/n/x? ")
            time.sleep(INERT)
            it.line("y")
            it.expect("The command ended with status 0")
        out, _ = process.communicate(timeout=PATIENCE)
    assert "The command ended with status 0" in out.decode()
    assert process.returncode == 0


def test_a_killed_server_s_turn_is_told_by_the_next_one(program: Program) -> None:
    with serving(program, *FAST_DEMO) as served:
        served.link()
        with attached(program, *FAST_DEMO) as it:
            it.expect(PROMPT)
            with sent(program, "/slow 60", "--output-format", "json") as process:
                it.expect("Say nothing")
                kill(served)
                with serving(program, *FAST_DEMO) as again:
                    again.link()
                    out, err = process.communicate(timeout=PATIENCE)
    assert json.loads(out)["outcome"] == "agent_died", (out, err)
    assert process.returncode == 1
