"""The conversation in a terminal, as a person has it."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from program import FAST_DEMO, INERT, PATIENCE, Program, Terminal, fake_claude, odd

from agentrt.telemetry import read_audit

PROMPT = "\x1b[1m> \x1b[0m"


@contextmanager
def talking(program: Program, *arguments: str, **options: object) -> Iterator[Terminal]:
    """A conversation with the demo agent that has begun."""
    with program.terminal(*(arguments or FAST_DEMO), **options) as terminal:
        terminal.expect("/help · Ctrl-C stop · Ctrl-D quit · @ files · ! shell\n")
        terminal.expect(PROMPT)
        yield terminal


@pytest.mark.slow
def test_a_shell_command_of_the_user_is_run_and_not_sent(program: Program) -> None:
    with talking(program) as it:
        it.line("!printf '10%%\\r20%%\\n'; exit 3")
        it.expect("20%\nexit status 3\n")
        it.expect(PROMPT)
        it.line("!true")
        it.expect(PROMPT)
        # A shell without a trap can miss the signal between two of its commands.
        it.line("!trap 'exit 7' INT; echo begun; while :; do sleep 0.1; done")
        it.expect("\nbegun\n")
        it.type("\x03")
        it.expect("exit status 7\n")
        it.expect(PROMPT)
        it.line("/diff")  # still the same conversation
        it.expect("reported no change")
    assert "10%" not in it.shown.partition("exit 3")[2]


@pytest.mark.slow
def test_what_goes_over_the_wire_is_shown_once_it_is_listened_to(program: Program) -> None:
    with talking(program) as it:
        it.line("/debug wire")
        it.expect("Recording protocol messages from now on; /debug wire shows them.\n")
        it.expect(PROMPT)
        it.line("/debug wire")
        it.expect("No protocol messages since then.\n")
        it.line("list the files")
        it.expect("`notes.txt`")
        it.expect(PROMPT)
        shown = ""
        deadline = time.monotonic() + PATIENCE
        while " answer to session/prompt  end_turn  after " not in shown:  # heard a little later
            assert time.monotonic() < deadline, shown
            it.line("/debug wire")
            shown = it.expect(f"(.*?){re.escape(PROMPT)}", regex=True).group(1)
        assert " session/prompt  list the files  ⇒ end_turn after " in shown
        assert "← agent_message_chunk ×" in shown
        it.line("/debug wire 1")
        it.expect(PROMPT)
        it.line("/debug wires")
        it.expect("/debug wire [N] the last protocol messages")


@pytest.mark.slow
@pytest.mark.door("repl", "prompt", "stream", "permission", "cancel")
def test_a_conversation(program: Program) -> None:
    """From the first line to the last: stream, permission, cancel, a dead agent, goodbye."""
    with talking(program) as it:
        assert "demo 0.1.0 · mode ask · model instant" in it.shown
        it.line("read notes.txt")
        it.expect("→ Read notes.txt")
        it.expect("second line\n")
        it.expect(PROMPT)

        it.line("run echo works")
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        it.line("y")
        it.expect("The command ended with status 0")
        it.expect(PROMPT)

        it.line("/slow 600")
        it.expect("→ Say nothing for 600 s")
        it.ctrl("c")
        it.expect("(stopping; Ctrl-C again ends the agent)")
        it.expect("✗ Say nothing for 600 s: cancelled")
        it.expect("— cancelled\n")
        it.expect(PROMPT)
        assert "process ended" not in it.shown  # the keyboard's interrupt does not reach it

        it.line("/crash 3")
        it.expect("— the agent's process ended (exit status 3) before the turn was over\n")
        it.expect("  │ agentrt demo: crashing, as asked\n")
        it.expect(PROMPT)
        it.line("list the files")
        it.expect("the agent was started again")
        it.expect("`notes.txt`")
        it.expect(PROMPT)

        it.ctrl("c")
        it.expect("(Ctrl-C again quits)")
        it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0


def test_an_empty_answer_does_not_look_hung(program: Program) -> None:
    with talking(program, *fake_claude("says_nothing")) as it:
        for _ in range(2):
            it.line("hello?")
            it.expect("(no answer)")
            it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0


@pytest.mark.slow
def test_a_prompt_that_is_typed_at_a_question_is_queued_and_answers_nothing(
    program: Program,
) -> None:
    with talking(program) as it:
        it.line("create new.txt with text")
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        for prompt in ("yes, and list the files", "list the files"):
            it.line(prompt)
            it.expect(f"(queued, see /queue: {prompt})")
            it.expect("y/a/n/x? ")
        it.line("/queue")
        it.expect("yes, and list the files")
        it.expect("y/a/n/x? ")
        it.line("yess")
        it.expect("Please answer y, a, n or x.")
        it.expect("y/a/n/x? ")
        assert not (program.folder / "new.txt").exists()
        it.line("n")
        it.expect("`notes.txt`")
        it.expect(PROMPT)
        it.line("/quit")
        assert it.ended() == 0
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_a_prompt_may_have_several_lines(program: Program) -> None:
    with talking(program) as it:
        it.line("create lines.txt with one\\")
        it.expect("… ")
        it.line("two")
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        it.line("a")
        it.expect("I created")
        it.line("/quit")
        assert it.ended() == 0
    assert (program.folder / "lines.txt").read_text() == "one\ntwo\n"


@pytest.mark.slow
def test_what_is_typed_ahead_waits_for_its_turn(program: Program) -> None:
    with talking(program) as it:
        it.line("/slow 1")
        it.expect("→ Say nothing")
        it.line("read notes.txt:1")
        it.expect("(queued, see /queue: read notes.txt:1)")
        it.line("read notes.txt:2")
        it.expect("(queued, see /queue: read notes.txt:2)")
        it.line("/queue drop 1")
        it.expect("1  read notes.txt:2\n")
        it.expect("\n> read notes.txt:2\n")
        it.expect("second line")
        it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0
    assert "first line" not in it.shown


@pytest.mark.slow
def test_an_agent_can_be_told_what_was_said(program: Program) -> None:
    with talking(program) as it:
        it.line("/retell")
        it.expect("there is nothing to repeat")
        it.line("read notes.txt:2")
        it.expect("second line")
        it.expect(PROMPT)
        it.line("/retell")
        it.expect("[agentrt] You do not remember this conversation")
        it.expect("The user: read notes.txt:2")
        it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0


@pytest.mark.slow
def test_a_stop_holds_back_what_was_typed_ahead_until_enter(program: Program) -> None:
    with talking(program) as it:
        it.line("/slow 600")
        it.expect("→ Say nothing")
        it.line("read notes.txt:2")
        it.expect("(queued, see /queue")
        it.ctrl("c")
        it.expect("(stopping; Ctrl-C again ends the agent; 1 queued, Enter resumes)")
        it.expect("— cancelled\n")
        it.expect(PROMPT)
        it.line("/queue")
        it.expect("1 paused; press Enter to resume.")
        it.line("")
        it.expect("second line")
        it.expect(PROMPT)
        it.line("/quit")
        assert it.ended() == 0


def test_a_prompt_after_a_stop_goes_first_and_the_others_wait_for_enter(
    program: Program,
) -> None:
    with talking(program) as it:
        it.line("/slow 600")
        it.expect("→ Say nothing")
        it.line("read notes.txt:2")
        it.expect("(queued, see /queue")
        it.ctrl("c")
        it.expect("— cancelled\n")
        it.expect(PROMPT)
        it.line("read notes.txt:1")
        it.expect("first line")
        it.expect(PROMPT)
        it.line("")
        it.expect("> read notes.txt:2\n")
        it.expect("second line")
        it.expect(PROMPT)
        it.line("/quit")
        assert it.ended() == 0


@pytest.mark.slow
def test_a_line_typed_ahead_of_a_question_is_a_prompt_and_no_answer(program: Program) -> None:
    with talking(program) as it:
        it.line("create new.txt with text")
        it.line("read notes.txt")
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        it.line("n")
        it.expect("✗ Create new.txt: denied")
        it.expect("second line")
        it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0
    assert not (program.folder / "new.txt").exists()


def test_ctrl_c_twice_leaves(program: Program) -> None:
    with talking(program) as it:
        it.ctrl("c")
        it.expect("(Ctrl-C again quits)")
        it.ctrl("c")
        assert it.ended() == 130
    assert "Traceback" not in it.shown


@pytest.mark.slow
def test_ctrl_c_while_it_is_being_stopped_ends_the_agent_and_stays(program: Program) -> None:
    with talking(program) as it:
        it.line("/stubborn 600")
        it.expect("cancel.")
        it.ctrl("c")
        it.expect("(stopping; Ctrl-C again ends the agent)")
        it.ctrl("c")
        it.expect("(ending the agent; Ctrl-D quits)")
        it.expect("— cancelled\n")
        it.expect(PROMPT)
        it.line("read notes.txt:2")
        it.expect("second line")
        it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0


@pytest.mark.slow
def test_ctrl_d_while_the_agent_works_leaves_behind_its_turn(program: Program) -> None:
    with talking(program) as it:
        it.line("/slow 0.5")
        it.expect("→ Say nothing")
        it.ctrl("d")
        it.expect("(quitting when this is done; Ctrl-C stops it)")
        it.expect("That was a tool without output while it runs.")
        assert it.ended() == 0


@pytest.mark.slow
def test_ctrl_d_at_a_question_is_a_no_and_the_conversation_goes_on(program: Program) -> None:
    with talking(program) as it:
        it.line("create new.txt with text")
        it.expect("y/a/n/x? ")
        it.ctrl("d")
        it.expect("Rejected.")
        it.expect("You did not allow it")
        it.expect(PROMPT)
        it.line("/quit")
        assert it.ended() == 0
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_commands_show_and_change_the_session(program: Program) -> None:
    with talking(program) as it:
        it.line("/help")
        it.expect("/queue [drop N | clear]   list queued prompts, or remove some\n")
        it.expect("  //help ")
        it.expect("  /slow seconds ")
        it.line("/mode plan")
        it.expect("mode: plan")
        it.line("/mode turbo")
        it.expect("agentrt: ")
        it.expect("no mode 'turbo'")
        it.line("/model")
        it.expect("* instant ")
        it.line("/rename My shop")
        it.expect("title: My shop")
        it.line("/rename")
        it.expect("title: My shop")
        it.line("/providers")
        it.expect("the agent does not offer list_providers")
        it.line("/providers main")
        it.expect("use /providers ID API URL")
        it.line("/providers main openai http://x X-Key=NO_SUCH")
        it.expect("write X-Key=VARIABLE")
        it.line("/agent geminy")
        it.expect("no agent is called 'geminy'; did you mean 'gemini'")
        it.line("/queue")
        it.expect("No queued prompts.")
        it.line("//help")
        it.expect("I am agentrt's built-in demo agent.")
        it.expect(PROMPT)
        it.line("/cost")
        it.expect(r"context  \d+ of 200,000 tokens", regex=True)
        it.line("/quit")
        assert it.ended() == 0


@pytest.mark.door("repl", "resume")
@pytest.mark.slow
def test_a_session_can_be_left_and_taken_up_again(program: Program) -> None:
    with talking(program) as it:
        it.line("read notes.txt:2")
        it.expect("second line")
        it.expect(PROMPT)
        it.line("/session")
        session = it.expect(r"session  (\S+)", regex=True)[1]
        it.line("/new")
        it.expect("starting demo")
        it.expect(PROMPT)
        it.line("/session")
        assert it.expect(r"session  (\S+)", regex=True)[1] != session
        it.line("/quit")
        assert it.ended() == 0
    with talking(program, *FAST_DEMO, "--resume", session) as it:
        assert "> read notes.txt:2\n→ Read notes.txt\n" in it.shown
        assert "second line" in it.shown
        it.ctrl("d")
        assert it.ended() == 0


@pytest.mark.slow
def test_another_agent_that_does_not_start_costs_nothing(program: Program) -> None:
    settings = program.home / ".config" / "agentrt" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[agents.other]\ncommand = '''{odd('locked')[1]}'''\n")
    with talking(program) as it:
        it.line("read notes.txt:2")
        it.expect("second line")
        it.expect(PROMPT)
        it.line("/agent other")
        it.expect("agentrt: other requires a login first: Log in first\n")
        it.expect("starting demo")
        it.expect("> read notes.txt:2\n")
        it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0


def test_an_agent_that_does_not_start_is_an_error(program: Program) -> None:
    with program.terminal(*odd("locked")) as it:
        it.expect("requires a login first: Log in first\n")
        assert it.ended() == 1


@pytest.mark.slow
def test_a_signal_ends_it_and_the_agent(program: Program) -> None:
    with talking(program) as it:
        it.line("/slow 600")
        it.expect("→ Say nothing")
        agents = psutil.Process(it.process.pid).children()
        it.process.send_signal(signal.SIGTERM)
        assert it.ended() == 143
    assert psutil.wait_procs(agents, timeout=5)[1] == []


@pytest.mark.slow
def test_a_terminal_that_is_gone_ends_it(program: Program) -> None:
    with talking(program) as it:
        it.line("/flood 1000000")
        it.expect("line 1\n")
        it.hang_up()
        assert it.process.wait(20) == 128 + signal.SIGHUP


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [[], ["-p", "run date"]])
def test_a_terminal_that_is_gone_is_not_an_answer_of_its_user(
    program: Program, prompt: list[str]
) -> None:
    audit = program.folder / "audit.jsonl"
    with program.terminal(*FAST_DEMO, *prompt, "--audit", str(audit)) as it:
        if not prompt:
            it.expect(PROMPT)
            it.line("run date")
        it.expect("reject always")
        it.hang_up()
        assert it.process.wait(20) == 128 + signal.SIGHUP
    records = [each for each in read_audit(audit) if each.kind in ("decision", "turn")]
    assert [each.who for each in records] == ["", ""]


@pytest.mark.slow
def test_many_lines_scroll_through_without_losing_one(program: Program) -> None:
    with talking(program) as it:
        it.line("/flood 20000")
        it.expect("line 1\n")
        it.expect("line 20000\n")
        it.expect(PROMPT)
        it.ctrl("d")
        assert it.ended() == 0
    assert "".join(f"line {n}\n" for n in range(1, 20001)) in it.shown


@pytest.mark.slow
def test_what_an_agent_does_by_itself_appears_above_a_new_prompt(program: Program) -> None:
    with talking(program, "--agent", "demo") as it:
        it.line("/background 1")
        it.expect("My turn ends here")
        it.type("read no")  # while something else is written
        it.expect("The background work is done.")
        it.expect(PROMPT)
        it.line("tes.txt")
        it.expect("second line")
        it.ctrl("d")
        assert it.ended() == 0
    assert "· the agent continues by itself" in it.shown


@pytest.mark.slow
def test_output_that_is_no_terminal_has_no_escapes(program: Program) -> None:
    with program.terminal(*FAST_DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as it:
        it.line("read notes.txt:2")
        it.ctrl("d")
        out, err = it.process.communicate(timeout=20)
    assert b"second line" in out
    assert b"\x1b" not in out + err


@pytest.mark.slow
def test_a_conversation_is_forked_and_the_first_one_stays(program: Program) -> None:
    with talking(program, *odd("forks")) as it:
        it.line("/fork")
        it.expect("there are no messages to fork yet")
        it.line("hello")
        it.expect("(no answer)")
        it.line("/fork")
        it.expect("/help · Ctrl-C stop")
        it.expect("> hello")  # what was said, though this agent repeats nothing
        it.expect(PROMPT)
        it.line("/session")
        it.expect("session  s1-fork")
        it.line("/sessions")
        it.expect("1  hello")


@pytest.mark.slow
def test_an_agent_that_cannot_fork_is_said_to_be_one(program: Program) -> None:
    with talking(program, *odd("sulks")) as it:
        it.line("/fork")
        it.expect("cannot fork a session")


@pytest.mark.slow
@pytest.mark.door("repl", "fork")
def test_where_a_fork_ends_is_chosen_among_the_prompts(program: Program) -> None:
    with talking(program) as it:
        for prompt in ("read notes.txt", "hello", "list the files"):
            it.line(prompt)
            it.expect(PROMPT)
        it.line("/fork")
        it.expect("0  all of it")
        it.expect("1  up to: hello")
        it.expect("2  up to: read notes.txt")
        it.line("/fork 3")
        it.expect("the number of last turns to leave out: 0 to 2")
        it.line("/fork 1")
        it.expect("/help · Ctrl-C stop")
        it.expect(PROMPT)
        it.line("hello again")
        it.expect(PROMPT)


@pytest.mark.slow
def test_words_are_steered_into_the_running_turn(program: Program) -> None:
    with talking(program, *fake_claude("fold_in")) as it:
        it.line("/steer too early")
        it.expect("no turn is running that could be steered")
        it.line("make it")
        it.expect("→ ")
        it.line("/steer and test it")
        it.expect("both answered")
        it.expect(PROMPT)


@pytest.mark.slow
def test_an_agent_that_cannot_be_steered_is_said_to_be_one(program: Program) -> None:
    with talking(program) as it:
        it.line("/slow")
        it.expect("Say nothing")
        it.line("/steer hurry")
        it.expect("agentrt: ")
        it.ctrl("c")
        it.expect("— cancelled")


@pytest.mark.slow
def test_titles_and_providers_reach_the_agent(program: Program) -> None:
    audit = program.folder / "audit.jsonl"
    key = {"GATEWAY_KEY": "the-key-of-the-gateway"}
    program.env |= key
    with talking(program, *odd("drafts"), "--audit", str(audit)) as it:
        it.line("/providers")
        it.expect("main: off; APIs: openai")
        it.line("/rename Mine")
        it.expect("title: Mine")
        it.line("/providers main openai http://gate/v1 X-Key=GATEWAY_KEY")
        it.expect("Mine: openai at http://gate/v1; APIs: openai")
        it.line("/providers off main")
        it.expect("Mine: off; APIs: openai")
        it.line("/quit")
        assert it.ended() == 0
    assert key["GATEWAY_KEY"] not in it.shown
    records = [each for each in read_audit(audit) if each.kind == "action"]
    assert [each.title for each in records] == ["rename", "set_provider", "set_provider", "close"]
    assert key["GATEWAY_KEY"] not in audit.read_text()


@pytest.mark.slow
def test_changes_by_the_user_are_in_the_audit_log(program: Program) -> None:
    audit = program.folder / "audit.jsonl"
    with talking(program, *FAST_DEMO, "--audit", str(audit)) as it:
        it.line("/mode plan")
        it.expect(PROMPT)
        it.line("hi")
        it.expect(PROMPT)
        it.line("/quit")
        assert it.ended() == 0
    records = [each for each in read_audit(audit) if each.kind == "action"]
    assert [(each.title, each.outcome, each.via) for each in records] == [
        ("set_mode", "done", "terminal"),
        ("prompt", "done", "terminal"),
        ("close", "done", "terminal"),
    ]
