"""One prompt: what is written where, in each format, and the exit status."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from program import FAST_DEMO, PATIENCE, Program, fake_claude, odd

from agentrt.events import Event
from agentrt.lowlevel import SessionState
from in_process import main


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


# --- formats


@pytest.mark.door("one-shot", "prompt")
def test_text_is_the_answer_and_nothing_else(program: Program) -> None:
    done = program.demo("list the files")
    assert done.stdout == "In this folder:\n\n- `notes.txt` 23 B\n"
    assert done.stderr == ""


def test_parts_of_an_answer_are_a_blank_line_apart(program: Program) -> None:
    done = program.run(*odd("breaks"), "-p", "go")
    assert done.stdout == "one paragraph\n\nanother\n\n[image]\n\nthe last\n"


@pytest.mark.slow
def test_json_is_one_object_that_says_all_of_the_end(program: Program) -> None:
    done = program.demo("list the files", "--output-format", "json")
    told = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert told["outcome"] == "completed"
    assert told["stop_reason"] == "end_turn"
    assert told["text"] == "In this folder:\n\n- `notes.txt` 23 B"
    assert told["agent"] == "demo"
    assert told["duration"] > 0
    # its session is the one that --resume takes
    more = program.demo("/title x", "--resume", told["session"], "--output-format", "json")
    assert json.loads(more.stdout)["session"] == told["session"]


@pytest.mark.parametrize(
    ("arguments", "status", "code", "message"),
    [
        (odd("locked"), 1, "agent_not_started", "requires a login first"),
        (("--agent", "nobody"), 4, "agent_not_found", "no agent is called 'nobody'"),
        pytest.param(
            *((*FAST_DEMO, "--resume", "nothing"), 4, "session_not_found", "Session not found"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *((*FAST_DEMO, "--resume", "x"), 4, "session_not_found", "no session 'x' is stored"),
            marks=pytest.mark.slow,
        ),
        ((*FAST_DEMO, "--allow", "Bash("), 2, "usage", ""),
        pytest.param(
            (*FAST_DEMO, "--mode", "turbo"), 1, "agent_not_started", "turbo", marks=pytest.mark.slow
        ),
    ],
)
def test_what_does_not_start_says_so_in_the_format_that_was_asked_for(
    program: Program, arguments: tuple[str, ...], status: int, code: str, message: str
) -> None:
    for format in ("json", "stream-json"):
        done = program.run(*arguments, "-p", "go", "--output-format", format, status=None)
        *before, end = events(done.stdout)
        assert done.returncode == status
        assert end["outcome"] == "failed"
        assert end["error"]["code"] == code
        assert message in end["error"]["message"]
        if format == "json":
            assert before == []
            assert end["text"] == ""
        else:
            assert end["kind"] == "turn.ended"
            assert [each["seq"] for each in (*before, end)] == list(range(1, len(before) + 2))
        assert done.stderr  # for people as ever


def test_what_an_agent_wrote_before_it_did_not_start_is_in_the_object(program: Program) -> None:
    done = program.run(*odd("locked"), "-p", "go", "--output-format", "json", status=1)
    assert "no key" in json.loads(done.stdout)["error"]["data"]["stderr"]


def test_text_says_nothing_on_standard_output_about_what_does_not_start(program: Program) -> None:
    assert program.run(*odd("locked"), "-p", "go", status=1).stdout == ""


@pytest.mark.slow
def test_a_dash_is_the_prompt_on_standard_input(program: Program) -> None:
    done = program.demo("-", stdin="read notes.txt:2")
    assert "second line" in done.stdout
    assert program.demo("-", stdin=" \n", status=2).stdout == ""


@pytest.mark.door("one-shot", "stream")
def test_stream_json_is_the_whole_log_and_its_fold_is_the_state(program: Program) -> None:
    done = program.demo("read notes.txt", "--output-format", "stream-json")
    lines = done.stdout.splitlines()
    told = events(done.stdout)
    assert [each["seq"] for each in told] == list(range(1, len(told) + 1))
    assert all(line.startswith('{"seq":') for line in lines)
    assert (told[0]["kind"], told[0]["state"]["phase"]) == ("state", "starting")
    assert (told[-1]["kind"], told[-1]["state"]["phase"]) == ("state", "idle")
    assert told[-2]["kind"] == "turn.ended"
    state = SessionState()
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
    for line in lines:
        state.apply(decoder.decode(line))
    [turn] = state.turns.values()
    assert turn.outcome == "completed"
    assert [item.status for item in state.items.values()] == ["completed"] * 4
    assert "second line" in [i for i in state.items.values() if i.type == "text"][-1].text


@pytest.mark.slow
def test_a_flood_of_lines_is_written_whole(program: Program) -> None:
    done = program.demo("/flood 20000")
    assert done.stdout == "".join(f"line {n}\n" for n in range(1, 20001))


# --- what goes on behind the turn


@pytest.mark.slow
def test_what_the_agent_goes_on_with_in_the_background_belongs_to_the_answer(
    program: Program,
) -> None:
    done = program.run(*fake_claude("background_agent"), "-p", "dig")
    assert done.stdout == "Agent started.\n\nAgent finished.\n"


@pytest.mark.slow
def test_the_wait_for_it_ends_with_the_time_limit(program: Program) -> None:
    done = program.run(*fake_claude("endless_shell"), "-p", "serve", "--timeout", "4")
    assert done.stdout == "Shell started.\n"


def test_an_agent_that_dies_over_it_is_1(program: Program) -> None:
    done = program.run(*fake_claude("case_c"), "-p", "dig", "--output-format", "json", status=1)
    told = json.loads(done.stdout)
    assert (told["outcome"], told["text"]) == ("agent_died", "Agent started.")
    assert done.stderr.startswith("agentrt: the agent's process ended (exit status 70)")


# --- the prompt


def test_the_prompt_may_come_on_standard_input(program: Program) -> None:
    done = program.run(*FAST_DEMO, stdin="read notes.txt:2\n")
    assert "second line" in done.stdout
    assert "first line" not in done.stdout


@pytest.mark.slow
def test_standard_input_is_added_to_the_prompt(program: Program) -> None:
    done = program.demo("create", "--output-format", "stream-json", stdin="one\ntwo\n")
    [started] = [e for e in events(done.stdout) if e["kind"] == "turn.started"]
    assert started["prompt"] == [{"type": "text", "text": "create\n\none\ntwo\n"}]


@pytest.mark.slow
def test_a_prompt_may_be_a_file(program: Program) -> None:
    (program.folder / "prompt.txt").write_text("read notes.txt:1")
    with open(program.folder / "prompt.txt") as file:
        process = program.start(*FAST_DEMO, stdin=file)
        out, _ = process.communicate(timeout=PATIENCE)
    assert b"first line" in out


def test_no_prompt_at_all_is_wrong_usage(program: Program) -> None:
    done = program.run(*FAST_DEMO, stdin=" \n", status=2)
    assert done.stderr == "agentrt: no prompt given; use -p TEXT, or pipe it to standard input\n"


# --- exit statuses


@pytest.mark.slow
def test_an_error_of_the_agent_is_1_and_reported_in_a_line(program: Program) -> None:
    done = program.demo("/error", status=1)
    assert done.stdout == "Some text, and then an error.\n"
    assert done.stderr == (
        "agentrt: the turn failed: An error, as asked for: This is what `/error` shows.\n"
    )


@pytest.mark.slow
def test_an_agent_that_dies_is_1_with_its_last_words(program: Program) -> None:
    done = program.demo("/crash 3", "--output-format", "stream-json", status=1)
    [ended] = [e for e in events(done.stdout) if e["kind"] == "turn.ended"]
    assert ended["outcome"] == "agent_died"
    assert "ended (exit status 3) before the turn was over\n" in done.stderr
    assert "  │ agentrt demo: crashing, as asked\n" in done.stderr


@pytest.mark.slow
def test_a_limit_of_the_agent_s_own_is_1(program: Program) -> None:
    done = program.demo("/limit", status=1)
    assert done.stderr == "agentrt: the agent stopped at a limit (max_tokens)\n"


@pytest.mark.slow
def test_a_time_limit_is_3_and_the_agent_is_notified(program: Program) -> None:
    done = program.demo("/slow 600", "--timeout", "4", "--output-format", "stream-json", status=3)
    [ended] = [e for e in events(done.stdout) if e["kind"] == "turn.ended"]
    assert (ended["outcome"], ended["stop_reason"]) == ("timed_out", "cancelled")
    assert done.stderr == "agentrt: the command took longer than 4 s (--timeout)\n"


LOADING = "echo why >&2; while :; do echo loading; sleep 0.3; done"
"""Writes for ever: an agent that writes no message and then rests is known to be none."""


@pytest.mark.slow
def test_the_time_limit_is_that_of_the_whole_command_its_start_included(program: Program) -> None:
    done = program.run(*("--command", f"sh -c '{LOADING}'", "--timeout", "6", "-p", "hi"), status=3)
    assert "agentrt: the start of the agent took over 6 s (--timeout): sh " in done.stderr
    assert "loading" in done.stderr
    assert "  │ why\n" in done.stderr


@pytest.mark.slow
def test_the_time_limit_holds_while_standard_input_is_read(program: Program) -> None:
    reading, writing = os.pipe()
    try:
        process = program.start(*FAST_DEMO, "--timeout", "1", stdin=reading)
        _, told = process.communicate(timeout=PATIENCE)
    finally:
        os.close(reading)
        os.close(writing)
    assert process.returncode == 3
    assert b"reading the prompt from standard input took over 1 s (--timeout)" in told


@pytest.mark.slow
def test_silence_beyond_its_limit_is_3_and_an_unresponsive_agent_gets_its_grace(
    program: Program,
) -> None:
    flags = ("--idle-timeout", "0.3", "--cancel-grace", "0.3")
    done = program.demo("/stubborn 600", *flags, status=3)
    assert "reached its idle limit of 0.3 s (limits.idle_timeout_s)" in done.stderr
    assert "did not end its turn within 0.3 s of the cancel" in done.stderr


def test_an_unknown_agent_is_4_and_close_names_are_reported(program: Program) -> None:
    done = program.run("--agent", "geminy", "-p", "hi", status=4)
    assert done.stderr.startswith("agentrt: no agent is called 'geminy'; did you mean 'gemini'")


def test_an_agent_that_is_not_installed_is_4_and_how_to_get_it_is_reported(
    program: Program,
) -> None:
    program.env["PATH"] = "/nowhere"
    done = program.run("--agent", "qwen", "-p", "hi", status=4)
    assert "npm install -g @qwen-code/qwen-code" in done.stderr


def test_an_unknown_session_is_4(program: Program) -> None:
    done = program.demo("hi", "--resume", "demo-nothing", status=4)
    assert "and its agent does not know it either: demo: " in done.stderr


def test_a_program_that_is_no_agent_is_1_with_what_it_said(program: Program) -> None:
    command = shlex.join(["sh", "-c", "echo broken >&2; exit 7"])
    done = program.run("--command", command, "-p", "hi", status=1)
    assert done.stderr == ("agentrt: sh ended before it was ready (exit status 7)\n  │ broken\n")


@pytest.mark.slow
def test_a_mode_that_the_agent_does_not_have_is_reported_with_those_it_has(
    program: Program,
) -> None:
    done = program.demo("hi", "--mode", "turbo", status=1)
    assert "no mode 'turbo'; it has: ask, auto, plan" in done.stderr


# --- permissions without a terminal


@pytest.mark.slow
def test_without_a_terminal_permission_is_denied_and_reported(program: Program) -> None:
    done = program.demo("create new.txt with text")
    assert done.stdout == "You did not allow it, so I changed nothing.\n"
    assert done.stderr == "agentrt: rejected: Create new.txt (see --permissions and --allow)\n"
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_all_may_be_allowed(program: Program) -> None:
    done = program.demo("create new.txt with text", "--permissions", "allow-all", "--no-sandbox")
    assert (program.folder / "new.txt").read_text() == "text\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_a_rule_allows_what_it_covers_and_no_more(program: Program) -> None:
    rule = ("--allow", "Bash(touch good:*)")
    program.demo("run touch good", *rule)
    program.demo("run touch bad", *rule)
    assert (program.folder / "good").exists()
    assert not (program.folder / "bad").exists()


@pytest.mark.slow
def test_what_is_denied_is_denied_whatever_is_allowed(program: Program) -> None:
    flags = ("--permissions", "allow-all", "--no-sandbox", "--deny", "Bash(touch:*)")
    done = program.demo("run touch bad", *flags)
    assert not (program.folder / "bad").exists()
    assert "rejected: Run touch bad (Denied by the rule Bash(touch:*))" in done.stderr


@pytest.mark.slow
def test_what_a_rule_may_deny_is_denied_with_the_reason_where_nobody_is(program: Program) -> None:
    flags = ("--permissions", "allow-all", "--no-sandbox", "--deny", "Bash(touch:*)")
    done = program.demo("run sh -c 'eval $(echo touch bad)'", *flags, "--output-format", "json")
    assert not (program.folder / "bad").exists()
    [denial] = json.loads(done.stdout)["denials"]
    assert denial["by"] == "policy"
    assert denial["reason"].startswith("Denied because the rule Bash(touch:*) may apply: ")


@pytest.mark.slow
def test_edits_of_the_demo_agent_are_denied(program: Program) -> None:
    flags = ("--permissions", "allow-all", "--no-sandbox", "--deny", "Edit(**)")
    program.demo("create new.txt with text", *flags)
    assert not (program.folder / "new.txt").exists()
    flags = ("--permissions", "deny", "--allow", "Edit(*.txt)")
    program.demo("create new.txt with text", *flags)
    program.demo("create new.py with text", *flags)
    assert (program.folder / "new.txt").exists()
    assert not (program.folder / "new.py").exists()


def test_asking_where_nobody_can_be_asked_is_reported_and_rejects(program: Program) -> None:
    done = program.demo("create new.txt with text", "--permissions", "ask")
    assert done.stderr.startswith("agentrt: nobody can be asked here, so permission requests are")
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_a_turn_that_ends_because_of_a_denial_is_5(program: Program) -> None:
    done = program.run(*odd("sulks"), "-p", "go", status=5)
    assert "the agent refused after a permission request was rejected" in done.stderr
    assert program.run(*odd("sulks"), "-p", "go", "--allow", "Bash(make it so)").stdout == "done\n"


@pytest.mark.slow
def test_a_form_that_nobody_can_fill_is_declined_and_holds_nothing_up(program: Program) -> None:
    done = program.demo("/form", "--permissions", "allow-all", "--no-sandbox")
    assert done.stderr.startswith("agentrt: rejected: Which weather would you like to see?")
    assert done.stderr.endswith("(nobody is asked here)\n")


# --- what agents say has no power


def test_escapes_of_an_agent_do_not_reach_a_pipe(program: Program) -> None:
    done = program.run(*odd("escapes"), "-p", "go")
    assert not set("\x1b\x9b\x07\r") & set(done.stdout + done.stderr)
    assert "\N{SYMBOL FOR ESCAPE}[2Jwiped" in done.stdout


def test_the_answer_to_a_program_is_exact(program: Program) -> None:
    done = program.run(*odd("escapes"), "-p", "go", "--output-format", "json")
    assert "\x1b[2Jwiped\x1b]0;title\x07" in json.loads(done.stdout)["text"]


# --- which agent


def test_the_configured_agent_is_the_default(program: Program) -> None:
    settings = program.home / ".config" / "agentrt" / "config.toml"
    settings.parent.mkdir(parents=True)
    _, command = odd("sulks")
    settings.write_text(f"agent = 'mine'\n[agents.mine]\ncommand = '''{command}'''\n")
    assert "the agent refused" in program.run("-p", "go", status=5).stderr


@pytest.mark.parametrize(
    "arguments",
    [["-p", "hi"], ["-p", "hi", "--output-format", "json"], ["acp"], ["--resume", "x", "-p", "hi"]],
)
def test_no_command_without_a_person_takes_the_demo_agent_for_a_missing_one(
    arguments: list[str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("agentrt._core.agents.find._claude_places", lambda: iter(()))
    assert main(arguments) == 4
    out, err = capfd.readouterr()
    assert "no agent is installed; `agentrt agents` lists agents" in err
    told = json.loads(out) if "json" in arguments else None
    assert told is None or (told["agent"], told["outcome"]) == (None, "failed")
    assert told is not None or out == ""


# --- what Windows programs write


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfread notes.txt:2\r\n",
        "read notes.txt:2".encode("utf-16"),
        b"\xfe\xff" + "read notes.txt:2".encode("utf-16-be"),
    ],
    ids=["utf-8 with a byte order mark", "utf-16 little endian", "utf-16 big endian"],
)
def test_a_piped_prompt_is_decoded_by_its_byte_order_mark(program: Program, data: bytes) -> None:
    with program.start(*FAST_DEMO, "-p", "-", start_new_session=True) as process:
        out, err = process.communicate(data, timeout=PATIENCE)
    assert (process.returncode, err) == (0, b"")
    assert b"second line" in out


def test_binary_data_is_no_prompt(program: Program) -> None:
    done = program.demo("-", stdin="\x7fELF\0\0\1", status=2)
    assert "standard input is binary data; a prompt must be text" in done.stderr


# --- how it ends


@pytest.mark.slow
def test_a_denial_can_be_a_failure_although_the_turn_completed(program: Program) -> None:
    program.demo("create new.txt with text")
    done = program.demo("create new.txt with text", "--fail-on-denied", status=5)
    assert "a permission request was rejected (--fail-on-denied)" in done.stderr
    program.demo("list the files", "--fail-on-denied")
