"""`agentrt attach`: a terminal on a session of a server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from program import COMMAND, FAST_DEMO, INERT, PATIENCE, Program, Terminal
from test_repl import PROMPT, talking
from test_serve import Served, serving
from tmux import MISSING, has_tmux, in_tmux


@contextmanager
def attached(program: Program, *arguments: str) -> Iterator[Terminal]:
    with program.terminal("attach", *arguments) as it:
        it.expect("the session keeps running when you leave")
        yield it


@contextmanager
def with_session(program: Program, *arguments: str) -> Iterator[tuple[Served, Terminal]]:
    """A server, and a terminal on its only session."""
    with serving(program, *arguments) as served:
        served.link()
        with attached(program, *FAST_DEMO) as it:
            yield served, it


@pytest.mark.slow
@pytest.mark.door("attach", "prompt")
def test_a_prompt_is_answered_and_its_prompt_stands_there_once(program: Program) -> None:
    with with_session(program) as (_, it):
        it.expect(PROMPT)
        it.line("read notes.txt")
        it.expect("second line")
        it.expect(PROMPT)
        assert it.shown.count("read notes.txt") == 1
        it.ctrl("d")
        it.expect("Reattach: agentrt attach http://127.0.0.1:")
        assert it.ended() == 0


@pytest.mark.slow
@pytest.mark.door("attach", "stream", "permission", "cancel")
def test_two_terminals_have_one_conversation(program: Program) -> None:
    with with_session(program) as (_, one), attached(program) as two:
        one.expect(PROMPT)
        one.line("run echo from one")
        two.expect("> run echo from one")
        two.expect("y/a/n/x? ")
        one.expect("y/a/n/x? ")
        time.sleep(INERT)
        two.line("y")
        one.expect("Answered by the server's token, agentrt.v1 (agentrt).")
        one.expect("The command ended with status 0")
        two.expect("The command ended with status 0")
        two.expect(PROMPT)
        two.line("/slow")
        one.expect("> /slow")
        one.expect("Say nothing")
        one.ctrl("c")
        one.expect("— cancelled")
        two.expect("— cancelled")


@pytest.mark.slow
@pytest.mark.door("attach", "resume")
def test_what_runs_goes_on_without_the_terminal(program: Program) -> None:
    with with_session(program) as (_, it):
        it.expect(PROMPT)
        it.line("run echo left alone")
        it.expect("y/a/n/x? ")
        it.hang_up()
        it.process.wait(PATIENCE)
        with attached(program) as again:
            again.expect("> run echo left alone")
            again.expect("y/a/n/x? ")
            time.sleep(INERT)
            again.line("y")
            again.expect("The command ended with status 0")


def kill(served: Served) -> None:
    agents = psutil.Process(served.process.pid).children(recursive=True)
    served.process.kill()
    served.process.wait()
    for each in agents:
        each.wait(PATIENCE)


@pytest.mark.slow
def test_a_killed_server_s_conversation_goes_on_with_the_next_one(program: Program) -> None:
    with with_session(program) as (served, it):
        it.expect(PROMPT)
        it.line("read notes.txt")
        it.expect("second line")
        it.expect(PROMPT)
        kill(served)
        it.expect("no connection to the server")
        it.line("read notes.txt:2-2")
        with serving(program):
            it.expect("connected again")
            it.expect("second line")
            it.expect(PROMPT)
            it.line("/session")
            it.expect("for agentrt attach --session")
    assert it.shown.count("first line") == 1
    assert it.shown.count("connected again") == 1


@pytest.mark.slow
def test_a_question_that_outlives_its_server_can_still_be_answered(program: Program) -> None:
    with with_session(program) as (served, it):
        it.expect(PROMPT)
        it.line("run echo asked")
        it.expect("y/a/n/x? ")
        kill(served)
        it.expect("no connection to the server")
        with serving(program):
            it.expect("connected again")
            it.line("n")  # it is the next server's question now, which has to be read, too
            it.expect("y/n? ")
            time.sleep(INERT)
            it.line("n")
            it.expect("> [agentrt]")


@pytest.mark.slow
def test_a_session_that_the_next_server_does_not_have_is_said_to_be_gone(program: Program) -> None:
    with with_session(program, "--store", "off") as (served, it):
        it.expect(PROMPT)
        it.line("/slow")
        it.expect("Say nothing")
        kill(served)
        it.expect("no connection to the server")
        with serving(program, "--store", "off"):
            it.expect("the server no longer has this session")
            it.line("/new")
            it.expect("the session keeps running when you leave")
            it.expect(PROMPT)
            it.line("read notes.txt")
            it.expect("second line")


@pytest.mark.slow
def test_one_of_several_sessions_is_chosen(program: Program) -> None:
    with with_session(program) as (_, one):
        one.expect(PROMPT)
        one.line("read notes.txt")
        one.expect("second line")
        with attached(program, *FAST_DEMO) as two:
            two.expect(PROMPT)
            two.line("/markdown")
            two.expect(PROMPT)
            two.line("/resume")
            two.expect("1  read notes.txt · demo · idle")
            two.line("/resume 1")
            two.expect("> read notes.txt")
            two.line("/session")
            id = two.expect(r"session  (\S+)", regex=True)[1]
        with attached(program) as three:
            three.expect("/resume and a name from the first column chooses one.")
        with attached(program, "--session", id[:6]) as four:
            four.expect("> read notes.txt")


@pytest.mark.slow
def test_the_conversation_of_agentrt_serve_option_is_found(program: Program) -> None:
    with talking(program, *FAST_DEMO, "--serve") as one, attached(program) as two:
        two.expect(PROMPT)
        two.line("read notes.txt")
        one.expect("> read notes.txt")
        one.expect("second line")
        two.expect("second line")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/share", "only the server can create a link"),
        ("/permissions allow-all", "the server's --permissions and rules decide"),
        ("/agent nobody", "the server has no agent 'nobody'"),
        ("/fork", "the session is empty, so it cannot be forked"),
        ("/providers", "are set by the server's program"),
        ("/resume nothing", "the server has no session 'nothing'"),
        ("/debug", "http://127.0.0.1:"),
        ("/debug wire", "The server records protocol messages"),
        ("/debug wires", "/debug wire [N] the last protocol messages"),
    ],
)
def test_what_is_the_server_s_is_said_to_be(program: Program, command: str, words: str) -> None:
    with with_session(program) as (_, it):
        it.expect(PROMPT)
        it.line(command)
        it.expect(words)


@pytest.mark.slow
def test_the_settings_the_queue_and_the_export_work_as_ever(program: Program) -> None:
    with with_session(program) as (_, it):
        it.expect(PROMPT)
        it.line("/mode plan")
        it.expect("mode: plan")
        it.line("/rename Mine")
        it.expect("title: Mine")
        it.line("/slow")
        it.expect("Say nothing")
        it.line("read notes.txt")
        it.line("/queue")
        it.expect("1  read notes.txt")
        it.line("/queue drop 1")
        it.expect("No queued prompts.")
        it.ctrl("c")
        it.expect("— cancelled")
        it.line("/rename")
        it.expect("title: Mine")
        it.line("/export talk.md")
        it.expect("written: ")
    assert "/slow" in (program.folder / "talk.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ftp://here"], "is not a server URL"),
        (["here:a"], "'here:a' is not a server URL"),
        (["--session", "x", "--agent", "demo"], "are for a new session"),
        (["--session", ""], "--session requires an id"),
        ([""], "the server's URL is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(program: Program, arguments: list[str], words: str) -> None:
    with program.terminal("attach", *arguments) as it:
        it.expect(words)
        assert it.ended() == 2


def test_no_server_to_attach_to_is_an_error_and_not_wrong_usage(program: Program) -> None:
    with program.terminal("attach") as it:
        it.expect("you have no running server; start one with `agentrt serve`")
        assert it.ended() == 1


@pytest.mark.slow
def test_a_wrong_token_and_an_unknown_session_are_said(program: Program) -> None:
    with serving(program, *FAST_DEMO) as served:
        url = served.link().partition("/?")[0]
        with program.terminal("attach", "--session", "nothing") as it:
            it.expect("the server has no session 'nothing'")
            assert it.ended() == 4
        program.env["AGENTRT_SERVE_TOKEN"] = "a-token-of-somebody-else-s-server"
        with program.terminal("attach", url) as it:
            it.expect("token")
            assert it.ended() == 1
        assert served.end(signal.SIGTERM)[0] == 143


@pytest.mark.slow
@pytest.mark.skipif(not has_tmux(), reason=MISSING)
def test_the_screen_says_that_there_is_no_connection_and_goes_on(
    program: Program, tmp_path: Path
) -> None:
    env = {k: v for k, v in program.env.items() if k != "AGENTRT_TERMINAL_PLAIN"}
    env |= {"TERM": "tmux-256color", "LANG": "C.UTF-8"}
    command = [*COMMAND, "attach", *FAST_DEMO]
    with serving(program) as served:
        served.link()
        with in_tmux(tmp_path, command, cwd=program.folder, env=env) as tmux:
            tmux.until("● ready", "the session keeps running when you leave")
            tmux.enter("run echo from the screen")
            tmux.until(r"^y/a/n/x\?", "needs your answer")
            with attached(program) as other:
                other.expect("y/a/n/x? ")
                time.sleep(INERT)
                other.line("y")
                other.expect("The command ended with status 0")
            tmux.until("The command ended with status 0", "● ready", gone=r"^y/a/n/x\?")
            kill(served)
            tmux.until("● offline", "reconnecting …", gone="● ready")
            tmux.enter("read notes.txt")
            with serving(program):
                tmux.until("^  second line$", "● ready", gone="reconnecting …")
                assert tmux.everything.count("❯ read notes.txt") == 1
                tmux.key("C-d")
                tmux.until("Reattach: agentrt attach", "^exit status 0$")


@pytest.mark.slow
@pytest.mark.skipif(not has_tmux(), reason=MISSING)
def test_a_prompt_that_the_server_has_not_confirmed_is_printed_on_leaving(
    program: Program, tmp_path: Path
) -> None:
    env = {k: v for k, v in program.env.items() if k != "AGENTRT_TERMINAL_PLAIN"}
    env |= {"TERM": "tmux-256color", "LANG": "C.UTF-8"}
    with serving(program) as served:
        served.link()
        command = [*COMMAND, "attach", *FAST_DEMO]
        with in_tmux(tmp_path, command, cwd=program.folder, env=env) as tmux:
            tmux.until("● ready", "the session keeps running when you leave")
            kill(served)
            tmux.until("● offline", "reconnecting …")
            tmux.enter("a prompt worth keeping")
            tmux.until("⏎ a prompt worth keeping")
            tmux.key("C-d")
            tmux.until("perhaps not sent: a prompt worth keeping", "^exit status 0$")


@pytest.mark.slow
@pytest.mark.door("attach", "fork")
def test_a_conversation_of_a_server_is_forked(program: Program) -> None:
    with with_session(program) as (_, it):
        for prompt in ("read notes.txt", "hello"):
            it.expect(PROMPT)
            it.line(prompt)
        it.expect(PROMPT)
        it.line("/fork 1")
        it.expect("the session keeps running when you leave")
        it.expect("> read notes.txt")
        it.expect(PROMPT)
        it.line("hello again")
        it.expect(PROMPT)
        it.line("/sessions")
        it.expect("1  read notes.txt · demo · idle")


@pytest.mark.slow
def test_what_the_server_hears_of_the_wire_is_shown(program: Program) -> None:
    with with_session(program) as (_, it):
        it.expect(PROMPT)
        it.line("/debug wire")
        it.expect("The server records protocol messages")
        it.line("read notes.txt")
        it.expect("second line")
        it.expect(PROMPT)
        it.line("/debug wire")
        it.expect("session/prompt")
        it.expect("end_turn")
        it.line("/debug wire 1")
        it.expect(PROMPT)
