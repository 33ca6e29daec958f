"""`agentrt acp` behind the official client, which starts it as editors do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
import trio

from agentrt import Session
from agentrt.events import plain_text
from agentrt.testing import FakeAcpAgent
from agentrt.web import Site
from clients.connections import Client, Editors, editors
from clients.kit import first_of, node, served, served_script
from runtime.fakes import Script

pytestmark = [pytest.mark.usefixtures("npm_packages"), pytest.mark.slow]

DEMO = ("--agent", "demo", "--model", "instant")
FORMS = {"elicitation": {"form": {}, "url": {}}}


async def new(one: Client, editor: Editors, **params: Any) -> str:
    return await one.new(cwd=str(editor.folder), **params)


def is_over(pid: int) -> bool:
    return not psutil.pid_exists(pid)


@pytest.mark.door("editor", "prompt", "stream", "permission")
async def test_an_editor_has_a_turn_with_everything_in_it(tmp_path: Path) -> None:
    async with editors(tmp_path) as editor:
        one = await editor.start("one", *DEMO, **FORMS)
        assert one.agent["authMethods"][0]["type"] == "agent"
        assert await one.request("authenticate", methodId="agent") == {}
        session = await new(one, editor)
        assert await one.say(session, "/plan") == "end_turn"
        assert await one.say(session, "/usage") == "end_turn"
        for kind in ("available_commands_update", "plan", "usage_update"):
            assert one.updates(kind), kind
        prompting = await one.prompt(session, "/ask")
        await one.choose(await one.question(), "allow_once")
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        prompting = await one.prompt(session, "/form")
        await one.led.until(lambda: len(one.led.heard("asked")) == 2)
        form = one.led.heard("asked")[-1]
        assert form["kind"] == "form"
        answer = {"action": "accept", "content": {"city": "Reykjavík"}}
        await one.led.do("answer", question=form["question"], result=answer)
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        assert "Reykjavík" in one.text()
        await one.close()
        assert await one.exited() == {"exited": "one", "code": 0, "signal": None, "err": ""}


@pytest.mark.door("editor", "resume")
async def test_a_session_is_there_for_the_next_editor(tmp_path: Path) -> None:
    async with editors(tmp_path) as editor:
        one = await editor.start("one", *DEMO)
        session = await new(one, editor)
        assert await one.say(session, "/think") == "end_turn"
        text = one.text()
        await one.close()
        await one.exited()
        two = await editor.start("two", *DEMO)
        [listed] = (await two.request("session/list", cwd=str(editor.folder)))["sessions"]
        assert listed["sessionId"] == session
        assert listed["updatedAt"]
        about = {"sessionId": session, "cwd": str(editor.folder), "mcpServers": []}
        await two.request("session/load", **about)
        assert two.text() == text
        assert two.text("user_message_chunk") == "/think"
        assert await two.say(session, "/markdown") == "end_turn"
        await two.request("session/delete", sessionId=session)
        assert not (await two.request("session/list"))["sessions"]
        await two.request("session/delete", sessionId=session)
        error = await two.refused("session/load", **about)
        assert error["code"] == -32002


async def test_an_editor_s_files_and_terminals_are_the_agent_s(tmp_path: Path) -> None:
    async with editors(tmp_path) as editor:
        notes, news = editor.folder / "notes.txt", editor.folder / "news.txt"
        notes.write_text("as it is stored")
        files = {str(notes): "as it is in the editor"}
        one = await editor.start("one", *DEMO, has={"files": files})
        session = await new(one, editor)
        await one.request("session/set_mode", sessionId=session, modeId="auto")
        assert await one.say(session, "/read notes.txt") == "end_turn"
        assert "as it is in the editor" in one.text()
        assert await one.say(session, "/write news.txt hello") == "end_turn"
        [written] = [m for m in one.led.heard("lent") if m["method"] == "write"]
        assert (written["path"], written["sessionId"]) == (str(news), session)
        assert not news.exists()
        assert await one.say(session, "/run echo out of a terminal") == "end_turn"
        [made] = [m for m in one.led.heard("lent") if m["method"] == "create"]
        assert made["cwd"] == str(editor.folder)
        shown = [
            part["terminalId"]
            for update in one.updates("tool_call_update")
            for part in update.get("content", ())
            if part["type"] == "terminal"
        ]
        assert shown[0] == made["terminalId"]
        assert [m["terminalId"] for m in one.led.heard("lent") if m["method"] == "release"]


async def test_what_an_editor_has_not_agentrt_has(tmp_path: Path) -> None:
    async with editors(tmp_path) as editor:
        (editor.folder / "notes.txt").write_text("as it is stored")
        one = await editor.start("one", *DEMO)
        session = await new(one, editor)
        await one.request("session/set_mode", sessionId=session, modeId="auto")
        assert await one.say(session, "/read notes.txt") == "end_turn"
        assert "as it is stored" in one.text()
        assert await one.say(session, "/run echo out of a terminal") == "end_turn"
        assert "It ended with status 0" in one.text()


async def test_an_editor_is_not_asked_for_files_outside_of_the_session_s_folders(
    tmp_path: Path,
) -> None:
    async with editors(tmp_path) as editor:
        (editor.folder / "out").symlink_to("/etc")
        one = await editor.start("one", *DEMO, has={"files": {}})
        session = await new(one, editor)
        await one.request("session/set_mode", sessionId=session, modeId="auto")
        for command in ("/read /etc/hosts", "/read out/hosts", "/write .git/hooks/x true"):
            await one.say(session, command)
        assert not one.led.heard("lent")
        assert not (editor.folder / ".git").exists()


async def test_the_end_of_its_input_answers_what_was_asked_and_ends_the_agents(
    tmp_path: Path,
) -> None:
    async with editors(tmp_path) as editor:
        one = await editor.start("one", "--agent", "demo")
        session = await new(one, editor)
        running = await one.prompt(session, "/slow")
        await one.led.until(lambda: one.text() or one.tools())
        waiting = await one.prompt(session, "hello")
        pid = await one.led.do("pid", connection="one")
        children = [child.pid for child in psutil.Process(pid).children(recursive=True)]
        assert children
        await one.close()
        for prompting in (running, waiting):
            assert (await one.led.result(prompting))["stopReason"] == "cancelled"
        assert (await one.exited())["code"] == 0
        await one.led.until(lambda: all(map(is_over, children)))


MCP = Path(__file__).parents[1] / "demo" / "mcp_server.py"


async def uses(one: Client, editor: Editors) -> None:
    """Cancel a turn, allow something, fork the session, and have a tool called."""
    heard = [{"name": "HEARD", "value": str(editor.folder / "heard")}]
    server = {"name": "mine", "command": sys.executable, "args": [str(MCP)], "env": heard}
    session = await new(one, editor, mcpServers=[server])
    running = await one.prompt(session, "/slow")
    await one.led.until(lambda: one.text() or one.tools())
    await one.notify("session/cancel", sessionId=session)
    assert (await one.led.result(running))["stopReason"] == "cancelled"
    prompting = await one.prompt(session, "/ask")
    await one.choose(await one.question(), "allow_once")
    assert (await one.led.result(prompting))["stopReason"] == "end_turn"
    prompting = await one.prompt(session, '/tool add {"a": 2, "b": 3}')
    await one.choose(await one.question(), "allow_once")
    assert (await one.led.result(prompting))["stopReason"] == "end_turn"
    call = list(one.tools().values())[-1]
    assert (call["status"], call["content"][0]["content"]["text"]) == ("completed", "5")
    where = {"cwd": str(editor.folder), "mcpServers": []}
    fork = await one.request("session/fork", sessionId=session, **where)
    assert await one.say(fork["sessionId"], "hello") == "end_turn"


@pytest.mark.door("editor", "cancel", "fork", "tools")
async def test_an_editor_cancels_forks_and_brings_tools(tmp_path: Path) -> None:
    async with editors(tmp_path) as editor:
        await uses(await editor.start("one", *DEMO), editor)


@pytest.mark.door("attached-editor", "permission", "cancel", "fork", "tools")
async def test_an_attached_editor_cancels_forks_and_brings_tools(tmp_path: Path) -> None:
    async with served() as (site, _), editors(tmp_path) as editor:
        await uses(await editor.attach("one", site, *DEMO), editor)


@pytest.mark.door("attached-editor", "resume")
async def test_a_session_of_a_server_is_loaded_by_the_next_editor(tmp_path: Path) -> None:
    async with served() as (site, _), editors(tmp_path) as editor:
        one = await editor.attach("one", site, *DEMO)
        session = await new(one, editor)
        assert await one.say(session, "hello") == "end_turn"
        await one.close()
        two = await editor.attach("two", site)
        about = {"sessionId": session, "cwd": str(editor.folder), "mcpServers": []}
        await two.request("session/load", **about)
        assert two.text() == one.text()
        assert await two.say(session, "hello again") == "end_turn"


@pytest.mark.door("attached-editor", "prompt", "stream")
async def test_an_attached_editor_sees_what_a_server_has_and_is_seen(tmp_path: Path) -> None:
    async with served() as (site, runtime), editors(tmp_path) as editor:
        session = (await runtime.create("demo", cwd=editor.folder, model="instant")).id
        one = await editor.attach("one", site, "--session", session)
        assert await new(one, editor) == session
        prompting = await one.prompt(session, "/ask")
        question = await one.question()
        [request] = runtime.get(session).pending_permissions
        runtime.get(session).answer(request, "allow_once")  # a phone does
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        await one.led.until(lambda: one.led.heard("withdrawn"))
        assert one.led.heard("withdrawn")[0]["question"] == question["question"]
        two = await editor.attach("two", site, "--session", session)
        await new(two, editor)
        await two.led.until(lambda: two.text() == one.text())
        assert two.text("user_message_chunk") == "/ask"


async def test_a_turn_goes_on_when_the_attached_editor_is_closed(tmp_path: Path) -> None:
    gate = trio.Event()
    async with served_script(working([gate])) as (site, runtime), editors(tmp_path) as editor:
        one = await editor.attach("one", site, "--agent", "fake")
        session = await new(one, editor)
        await one.prompt(session, "work")
        await one.until_tool("in_progress")
        await one.close()
        assert (await one.exited())["code"] == 0
        turn = runtime.get(session).state.turn
        assert turn is not None
        gate.set()
        await one.led.until(lambda: runtime.get(session).state.turn is None)
        assert runtime.get(session).log.state.turns[turn.id].outcome == "completed"


async def test_an_editor_is_answered_when_its_server_goes(tmp_path: Path) -> None:
    async with editors(tmp_path) as editor:
        async with served_script(working([trio.Event()])) as (site, _):
            one = await editor.attach("one", site)
            session = await new(one, editor)
            prompting = await one.prompt(session, "work")
            await one.until_tool("in_progress")
        assert "the server" in (await one.led.error(prompting))["message"]
        exit = await one.exited()
        assert exit["code"] == 1
        assert exit["err"].startswith("agentrt: the server")


async def test_a_wrong_token_ends_it_with_the_reason(tmp_path: Path) -> None:
    async with served() as (site, _), node("acp_client.mjs") as led:
        editor = Editors(led, tmp_path)
        editor.env["AGENTRT_SERVE_TOKEN"] = "a token that is not the right one"
        with pytest.raises(AssertionError, match="no valid token"):
            await editor.start("one", "--attach", site.url)
        assert (await Client(led, "one").exited())["code"] == 1


def working(gates: Sequence[trio.Event]) -> Script:
    """An agent that speaks, works until the last gate opens if it is asked to, and speaks again."""

    async def script(agent: FakeAcpAgent) -> None:
        count = 0
        async for prompt in agent.prompts:
            count += 1
            agent.say(f"begin {prompt.text}. ")
            if "work" in prompt.text:
                call = f"c{count}"
                agent.update("tool_call", toolCallId=call, title="Work", status="in_progress")
                await first_of(gates[-1].wait, prompt.cancelled.wait)
                status = "failed" if prompt.cancelled.is_set() else "completed"
                agent.update("tool_call_update", toolCallId=call, status=status)
            agent.say(f"end {prompt.text}. ")
            prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")

    return script


def texts(session: Session, kind: str) -> str:
    """What the session says, as the log has it."""
    state = session.log.state
    items = [item for item in state.items.values() if item.type == kind]
    return "".join(state.text(item.id) + plain_text(item.content) for item in items)


async def cut(
    one: Client, editor: Editors, site: Site, session: Session, version: int, dice: Random
) -> Client:
    """Kill the editor's agentrt at some moment of a prompt; another one is started."""
    number = str(len(one.led.told))
    await one.prompt(session.id, f"{dice.choice(('work', 'say'))} {number}, ")
    if dice.random() < 0.5:
        await one.led.until(lambda: f" {number}, " in texts(session, "user"))
    await trio.sleep(dice.choice((0, 0, 0.01, 0.05)))
    await one.cut()
    assert (await one.exited())["signal"] == "SIGKILL"
    return await editor.attach(number, site, version=version)


async def replay(one: Client, session: Session, editor: Editors, version: int) -> None:
    where = {"sessionId": session.id, "cwd": str(editor.folder), "mcpServers": []}
    if version == 2:
        await one.request("session/resume", **where, replayFrom={"type": "start"})
    else:
        await one.request("session/load", **where)


def shown_messages(one: Client, kind: str) -> str:
    """The text of the messages of one kind, which version 2 also sends as a whole."""
    messages: dict[str, str] = {}
    for update in one.updates():
        id = str(update.get("messageId"))
        if update["sessionUpdate"] == kind:
            messages[id] = "".join(each.get("text", "") for each in update["content"] or ())
        elif update["sessionUpdate"] == f"{kind}_chunk":
            messages[id] = messages.get(id, "") + update["content"].get("text", "")
    return "".join(messages.values())


async def sees_all(one: Client, session: Session, version: int) -> None:
    """The client shows what the session's log has, once, and in version 2 its state."""
    await one.led.until(lambda: session.state.turn is None and not session.queue)
    await one.led.until(lambda: shown_messages(one, "agent_message") == texts(session, "text"))
    assert shown_messages(one, "user_message") == texts(session, "user")
    shown = {call["toolCallId"]: call["status"] for call in one.tools().values()}
    tools = [item for item in session.log.state.items.values() if item.type == "tool"]
    assert shown == {item.id: item.status for item in tools}
    if version == 2:
        await one.led.until(lambda: one.updates("state_update")[-1]["state"] == "idle")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("cuts", [2, pytest.param(30, marks=pytest.mark.slow)])
async def test_whatever_moment_an_attached_editor_is_killed_at_the_next_sees_the_same(
    cuts: int, version: int, tmp_path: Path
) -> None:
    dice, gates = Random(cuts), [trio.Event()]
    async with served_script(working(gates)) as (site, runtime), editors(tmp_path) as editor:
        one = await editor.attach("first", site, version=version)
        session = runtime.get(await new(one, editor))
        for _ in range(cuts):
            one = await cut(one, editor, site, session, version, dice)
            if dice.random() < 0.5:
                gates[-1].set()
            await replay(one, session, editor, version)
            gates[-1].set()
            gates.append(trio.Event())
            await sees_all(one, session, version)
        witness = await editor.attach("witness", site, version=version)
        await replay(witness, session, editor, version)
        await sees_all(witness, session, version)
