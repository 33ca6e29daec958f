"""A conversation in a terminal that others are let into: `agentrt --serve`."""

from __future__ import annotations

import shlex
import time
from typing import Any

import pytest
from program import COMMAND, FAST_DEMO, INERT, Program, fake_claude
from test_acp import INITIALIZE, Editor, editing
from test_repl import PROMPT, talking
from test_serve import get


def enter(editor: Editor, session: str) -> None:
    """See a session from its beginning."""
    params = {"cwd": "/", "mcpServers": [], "sessionId": session}
    editor.send({"jsonrpc": "2.0", "id": 5, "method": "session/load", "params": params})
    editor.answer(5)


def the_session(editor: Editor) -> str:
    editor.send(INITIALIZE, {"jsonrpc": "2.0", "id": 2, "method": "session/list"})
    [session] = editor.answer(2)["result"]["sessions"]
    return str(session["sessionId"])


def asked(editor: Editor) -> Any:
    """The next permission request."""
    while (message := editor.message()).get("method") != "session/request_permission":
        pass
    return message


@pytest.mark.slow
def test_an_editor_and_the_terminal_have_one_conversation(program: Program) -> None:
    with (
        talking(program, *FAST_DEMO, "--serve") as it,
        editing(program, "--attach") as editor,
    ):
        session = the_session(editor)
        enter(editor, session)
        editor.prompt(session, "run echo from the editor")
        it.expect("> run echo from the editor")
        it.expect("y/a/n/x? ")
        question = asked(editor)
        [allow] = [o for o in question["params"]["options"] if o["kind"] == "allow_once"]
        outcome = {"outcome": {"outcome": "selected", "optionId": allow["optionId"]}}
        editor.send({"jsonrpc": "2.0", "id": question["id"], "result": outcome})
        it.expect("Answered by the server's token, acp")
        it.expect("The command ended with status 0")
        it.expect(PROMPT)
        assert editor.answer(3)["result"]["stopReason"] == "end_turn"
        it.line("run echo from the terminal")
        question = asked(editor)
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        it.line("y")
        it.expect("The command ended with status 0")
        while (message := editor.message()).get("method") != "$/cancel_request":
            pass
        assert message["params"]["requestId"] == question["id"]


@pytest.mark.slow
def test_a_second_terminal_takes_the_first_one_s_conversation_for_its_agent(
    program: Program,
) -> None:
    with talking(program, *FAST_DEMO, "--serve") as one:
        with editing(program, "--attach") as editor:
            session = the_session(editor)
        command = shlex.join([*COMMAND, "acp", "--attach", "--session", session])
        with program.terminal("--store", "off", "--command", command) as two:
            two.expect(PROMPT)
            one.line("run echo from the first")
            one.expect("y/a/n/x? ")
            two.expect("y/a/n/x? ")
            time.sleep(INERT)
            two.line("y")
            one.expect("Answered by the server's token, acp")
            for it in (one, two):
                it.expect("The command ended with status 0")
                it.expect(PROMPT)
            two.line("list the files")
            one.expect("> list the files")
            for it in (one, two):
                it.expect("`notes.txt`")
                it.expect(PROMPT)
            two.ctrl("d")
            assert two.ended() == 0
        one.line("list the files")
        one.expect("`notes.txt`")


@pytest.mark.slow
def test_share_prints_a_link_that_lets_a_browser_in(program: Program) -> None:
    with talking(program, *FAST_DEMO, "--serve") as it:
        it.line("/share")
        link = it.expect(r"Open once, in one browser: (http://\S+)", regex=True)[1]
        it.expect("Only browsers on this machine can open it")
        assert "▄" not in it.shown  # a phone could do nothing with a QR code
        assert get(link).status == 303
        it.line("/new")
        it.expect("starting demo")
        it.expect(PROMPT)
        with editing(program, "--attach") as editor:
            the_session(editor)  # the other one is gone with the terminal's leaving it
        it.ctrl("d")
        assert it.ended() == 0
        with pytest.raises(ConnectionRefusedError):
            get(link)


@pytest.mark.slow
def test_without_a_server_there_is_nothing_to_share(program: Program) -> None:
    with talking(program) as it:
        it.line("/share")
        it.expect("this session is not shared; start `agentrt --serve` to share it")


@pytest.mark.slow
def test_claude_s_conversation_is_shared_as_any_other(program: Program) -> None:
    with (
        talking(program, *fake_claude("permission"), "--serve") as it,
        editing(program, "--attach") as editor,
    ):
        session = the_session(editor)
        enter(editor, session)
        it.line("clean up")
        question = asked(editor)
        [allow] = [o for o in question["params"]["options"] if o["kind"] == "allow_once"]
        outcome = {"outcome": {"outcome": "selected", "optionId": allow["optionId"]}}
        editor.send({"jsonrpc": "2.0", "id": question["id"], "result": outcome})
        it.expect("Done.")


@pytest.mark.parametrize(
    "arguments", [["-p", "hello"], ["agents"], ["serve"], []], ids=lambda a: " ".join(a) or "pipe"
)
def test_it_is_refused_where_there_is_no_conversation(
    program: Program, arguments: list[str]
) -> None:
    assert "--serve" in program.run("--serve", *arguments, status=2).stderr


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(program: Program) -> None:
    with talking(program, *FAST_DEMO, "--serve") as it:
        it.line("/share")
        port = it.expect(r"127\.0\.0\.1:(\d+)", regex=True)[1]
        program.env["AGENTRT_SERVE_PORT"] = port
        with program.terminal(*FAST_DEMO, "--serve") as other:
            other.expect(f"cannot serve on 127.0.0.1 port {port}")
            assert other.ended() == 1
