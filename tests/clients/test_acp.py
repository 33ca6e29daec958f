"""The official ACP client, over its own WebSocket stream, against a site."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentrt import allow_all
from clients.connections import Clients, clients, clients_at_work
from clients.kit import WATCH, fake_claude, node, served_script
from runtime.fakes import echo

pytestmark = [pytest.mark.usefixtures("npm_packages"), pytest.mark.slow]

FORMS = {"elicitation": {"form": {}, "url": {}}, "session": {"notices": {}}}


@pytest.mark.door("acp", "prompt", "stream")
async def test_a_client_opens_a_session_and_sees_a_turn() -> None:
    async with clients(permissions=allow_all) as (site, runtime):
        one = await site.open("one")
        assert one.agent["protocolVersion"] == 1
        assert one.agent["agentInfo"]["name"] == "agentrt"
        assert one.agent["agentCapabilities"]["loadSession"]
        assert one.led.heard("upgraded")[0]["id"]
        session = await one.new(_meta={"agentrt": {"agent": "demo", "title": "mine"}})
        assert [info.title for info in runtime.list()] == ["mine"]
        assert await one.say(session, "/tools") == "end_turn"
        assert "Those were all kinds of tool calls" in one.text()
        assert {call["status"] for call in one.tools().values()} == {"completed", "failed"}
        assert {call["kind"] for call in one.tools().values()} >= {"read", "edit", "execute"}
        assert not one.updates("user_message_chunk"), "its own words came back to it"
        for what, kind in (
            ("/think", "agent_thought_chunk"),
            ("/plan", "plan"),
            ("/usage", "usage_update"),
            ("/title something", "session_info_update"),
        ):
            assert await one.say(session, what) == "end_turn"
            assert one.updates(kind), kind
        assert one.updates("available_commands_update")


@pytest.mark.door("acp", "permission")
async def test_a_question_goes_to_every_controller_and_the_first_answer_counts() -> None:
    async with clients() as (site, _):
        one, two = await site.open("one"), await site.open("two")
        session = await one.new()
        await two.request("session/load", sessionId=session, cwd="/", mcpServers=[])
        prompting = await one.prompt(session, "/ask")
        first, second = await one.question(), await two.question()
        assert first["params"]["toolCall"]["title"] == "Do nothing, with permission"
        assert first["params"]["toolCall"]["toolCallId"] in one.tools()
        await two.choose(second, "allow_once")
        await one.led.until(lambda: one.led.heard("withdrawn"))
        assert one.led.heard("withdrawn")[0]["question"] == first["question"]
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        assert "Allowed, so I did nothing" in one.text()
        await two.led.until(lambda: two.text() == one.text())
        assert two.text("user_message_chunk") == "/ask"
        assert one.tools().keys() == two.tools().keys()


@pytest.mark.parametrize("answer", ["reject_once", "cancelled", "nonsense"])
async def test_what_is_no_yes_is_a_no(answer: str) -> None:
    async with clients() as (site, _):
        one = await site.open("one")
        session = await one.new()
        prompting = await one.prompt(session, "/ask")
        question = await one.question()
        if answer == "reject_once":
            await one.choose(question, answer)
        else:
            chosen = {"outcome": "selected", "optionId": answer}
            outcome = {"outcome": answer} if answer == "cancelled" else chosen
            await one.led.do("answer", question=question["question"], result={"outcome": outcome})
        await one.led.result(prompting)
        (call,) = one.tools().values()
        assert call["status"] == "failed"
        assert call["_meta"]["agentrt"]["status"] in ("denied", "cancelled")
        assert "Allowed" not in one.text()


@pytest.mark.door("acp", "cancel")
async def test_a_cancel_ends_the_turn_its_tool_and_its_question() -> None:
    async with clients() as (site, runtime):
        one = await site.open("one")
        session = await one.new()
        prompting = await one.prompt(session, "/slow 600")
        await one.until_tool("in_progress")
        await one.notify("session/cancel", sessionId=session)
        assert (await one.led.result(prompting))["stopReason"] == "cancelled"
        (call,) = one.tools().values()
        assert call["status"] == "failed"
        assert call["_meta"]["agentrt"]["status"] == "cancelled"
        prompting = await one.prompt(session, "/ask")
        await one.question()
        await one.notify("session/cancel", sessionId=session)
        assert (await one.led.result(prompting))["stopReason"] == "cancelled"
        assert one.led.heard("withdrawn")
        assert runtime.list()[0].phase == "idle"
        assert await one.say(session, "hello") == "end_turn"


async def test_prompts_wait_for_each_other() -> None:
    async with clients_at_work() as (site, runtime, gate):
        one, two = await site.open("one"), await site.open("two")
        session = await one.new()
        first = await one.prompt(session, "work")
        await one.until_tool("in_progress")
        second = await two.prompt(session, "hello")
        await two.led.until(lambda: len(runtime.get(session).queue) == 1)
        gate.set()
        assert (await one.led.result(first))["stopReason"] == "end_turn"
        assert (await two.led.result(second))["stopReason"] == "end_turn"
        assert not two.text("user_message_chunk")
        assert one.text("user_message_chunk") == "hello"


async def test_a_cancel_takes_back_what_the_client_has_waiting() -> None:
    async with clients_at_work() as (site, runtime, _):
        one, two = await site.open("one"), await site.open("two")
        session = await one.new()
        running = await one.prompt(session, "work")
        await one.until_tool("in_progress")
        waiting = await one.prompt(session, "hello again")
        others = await two.prompt(session, "and me")
        await one.led.until(lambda: len(runtime.get(session).queue) == 2)
        await one.notify("session/cancel", sessionId=session)
        assert (await one.led.result(running))["stopReason"] == "cancelled"
        assert (await one.led.result(waiting))["stopReason"] == "cancelled"
        # Somebody else's prompt is paused; that client could not resume it, and is told.
        assert (await two.led.result(others))["stopReason"] == "cancelled"
        assert [entry.paused for entry in runtime.get(session).queue] == [True]


async def test_a_prompt_that_waits_is_answered_and_stays_paused_when_somebody_stops() -> None:
    """This client could not resume the queue, so it must not wait for that."""
    async with clients_at_work() as (site, runtime, _):
        one = await site.open("one")
        session = await one.new()
        running = await one.prompt(session, "work")
        await one.until_tool("in_progress")
        waiting = await one.prompt(session, "hello")
        await one.led.until(lambda: runtime.get(session).queue)
        runtime.get(session).cancel()
        assert (await one.led.result(running))["stopReason"] == "cancelled"
        assert (await one.led.result(waiting))["stopReason"] == "cancelled"
        assert [entry.paused for entry in runtime.get(session).queue] == [True]


async def test_a_prompt_can_be_cancelled_by_its_request() -> None:
    async with clients_at_work() as (site, _, _):
        one = await site.open("one")
        session = await one.new()
        content = [{"type": "text", "text": "work"}]
        params = {"sessionId": session, "prompt": content}
        prompting = await one.start("session/prompt", params, key="mine")
        await one.until_tool("in_progress")
        await one.led.do("abort", key="mine")
        assert (await one.led.result(prompting))["stopReason"] == "cancelled"


@pytest.mark.door("acp", "resume")
async def test_a_client_that_is_cut_off_loads_the_session_and_sees_all_of_the_turn() -> None:
    async with clients_at_work() as (site, _, gate):
        one = await site.open("one")
        session = await one.new()
        await one.prompt(session, "work")
        await one.until_tool("in_progress")
        await one.cut()
        await one.led.until(lambda: one.led.heard("closed"))
        again = await site.open("again")
        loaded = await again.request("session/load", sessionId=session, cwd="/", mcpServers=[])
        assert again.text("user_message_chunk") == "work"
        assert [call["status"] for call in again.tools().values()] == ["in_progress"]
        assert loaded["_meta"]["agentrt"]["phase"] == "running"
        gate.set()
        await again.until_tool("completed")
        await again.led.until(lambda: "Done: work" in again.text())
        assert await again.say(session, "hello") == "end_turn"


async def test_a_session_that_is_loaded_again_repeats_the_client_s_own_words() -> None:
    async with clients_at_work() as (site, _, gate):
        one = await site.open("one")
        session = await one.new()
        prompting = await one.prompt(session, "work")
        await one.until_tool("in_progress")
        assert not one.updates("user_message_chunk")
        await one.request("session/load", sessionId=session, cwd="/", mcpServers=[])
        assert one.text("user_message_chunk") == "work"
        gate.set()
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        error = await one.refused("session/prompt", sessionId=session, prompt=[])
        assert error["code"] == -32602


async def test_a_session_that_is_loaded_is_repeated_from_its_beginning_however_long_it_is() -> None:
    script = served_script(echo, snapshot_turns=2, snapshot_items=3)
    async with script as (site, _), node("acp_client.mjs") as led:
        connections = Clients(led, site)
        one, two = await connections.open("one"), await connections.open("two")
        session = await one.new()
        words = [f"prompt {number} " for number in range(6)]
        for each in words:
            assert await one.say(session, each) == "end_turn"
        await two.request("session/load", sessionId=session, cwd="/", mcpServers=[])
        assert two.text("user_message_chunk") == "".join(words)
        assert two.text() == one.text() == "".join(words)


async def test_a_resumed_session_repeats_nothing() -> None:
    async with clients() as (site, _):
        one, two = await site.open("one"), await site.open("two")
        session = await one.new()
        await one.say(session, "/think")
        resumed = await two.request("session/resume", sessionId=session, cwd="/", mcpServers=[])
        assert resumed["modes"]["currentModeId"]
        assert await two.say(session, "/title again") == "end_turn"
        assert not two.updates("agent_thought_chunk")
        assert two.updates("session_info_update")


async def test_sessions_are_listed_and_closed() -> None:
    async with clients() as (site, runtime):
        one = await site.open("one")
        first, second = await one.new(), await one.new()
        listed = (await one.request("session/list"))["sessions"]
        assert [info["sessionId"] for info in listed] == [first, second]
        assert not (await one.request("session/list", cwd="/nowhere"))["sessions"]
        await one.request("session/close", sessionId=first)
        assert [info.session for info in runtime.list()] == [second]
        for method in ("session/load", "session/prompt"):
            error = await one.refused(method, sessionId=first, cwd="/", mcpServers=[], prompt=[])
            assert error["code"] == -32002, method
        await one.request("session/close", sessionId=first)  # for the SDK that is a success


async def test_modes_models_and_options_are_reported_and_changed() -> None:
    async with clients() as (site, runtime):
        shows = {"configOptions": {"boolean": {}}}
        one, two = await site.open("one", session=shows), await site.open("two")
        opened = await one.request("session/new", cwd="/", mcpServers=[])
        session = opened["sessionId"]
        modes = [mode["id"] for mode in opened["modes"]["availableModes"]]
        other = next(mode for mode in modes if mode != opened["modes"]["currentModeId"])
        await two.request("session/resume", sessionId=session, cwd="/", mcpServers=[])
        await one.request("session/set_mode", sessionId=session, modeId=other)
        await two.led.until(lambda: two.updates("current_mode_update"))
        assert two.updates("current_mode_update")[0]["currentModeId"] == other
        options = {option["id"]: option for option in opened["configOptions"]}
        assert options["mode"]["category"] == "mode"
        assert "boolean" in [option["type"] for option in options.values()]
        for option in options.values():
            values = [each["value"] for each in option.get("options", [])]
            value = values[-1] if values else not option["currentValue"]
            kind = {} if values else {"type": "boolean"}
            changed = await one.request(
                "session/set_config_option",
                sessionId=session,
                configId=option["id"],
                value=value,
                **kind,
            )
            now = {each["id"]: each["currentValue"] for each in changed["configOptions"]}
            assert now[option["id"]] == value
        known = runtime.get(session).modes
        assert known is not None
        assert known.mode == modes[-1]
        error = await one.refused("session/set_mode", sessionId=session, modeId="no such mode")
        assert "no such mode" in error["message"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/refuse", "refusal"),
        ("/limit tokens", "max_tokens"),
        ("/limit turns", "max_turn_requests"),
    ],
)
async def test_an_outcome_is_reported_as_a_stop_reason(command: str, reason: str) -> None:
    async with clients() as (site, _):
        one = await site.open("one")
        assert await one.say(await one.new(), command) == reason


@pytest.mark.parametrize(("command", "outcome"), [("/error", "failed"), ("/crash", "agent_died")])
async def test_a_failure_is_an_error_and_the_next_prompt_works(command: str, outcome: str) -> None:
    async with clients() as (site, _):
        one = await site.open("one")
        session = await one.new()
        error = await one.led.error(await one.prompt(session, command))
        assert error["code"] == -32603
        assert error["data"]["outcome"] == outcome
        assert await one.say(session, "hello") == "end_turn"


async def test_a_viewer_looks_on_and_is_asked_nothing() -> None:
    async with clients() as (site, runtime):
        one, two = await site.open("one"), await site.open("two", token=WATCH)
        session = await one.new()
        await two.request("session/load", sessionId=session, cwd="/", mcpServers=[])
        prompting = await one.prompt(session, "/ask")
        question = await one.question()
        await two.led.until(lambda: two.updates("tool_call"))
        for method, params in (
            ("session/prompt", {"prompt": [{"type": "text", "text": "me too"}]}),
            ("session/set_mode", {"modeId": "auto"}),
            ("session/close", {}),
            ("session/new", {"cwd": "/", "mcpServers": []}),
        ):
            error = await two.refused(method, **{"sessionId": session, **params})
            assert (error["code"], error["data"]["code"]) == (-32600, "forbidden"), method
        await two.notify("session/cancel", sessionId=session)
        assert (await two.request("session/list"))["sessions"]
        assert runtime.list()[0].phase == "waiting"
        await one.choose(question, "allow_once")
        await one.led.result(prompting)
        await two.led.until(lambda: two.text() == one.text())
        assert not [m for m in two.led.heard("asked") if m["asked"] == "two"]


async def test_a_form_is_put_to_a_client_that_can_fill_it_in() -> None:
    async with clients() as (site, _):
        one = await site.open("one", **FORMS)
        session = await one.new()
        prompting = await one.prompt(session, "/form")
        question = await one.question()
        assert question["kind"] == "form"
        assert question["params"]["requestedSchema"]["properties"]
        filled = {"action": "accept", "content": {"city": "Reykjavík"}}
        await one.led.do("answer", question=question["question"], result=filled)
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        assert "Reykjavík" in one.text()
        assert await one.say(session, "/notice") == "end_turn"
        assert {notice["severity"] for notice in one.updates("notice")} >= {"info", "warning"}


@pytest.mark.door("acp", "fork")
async def test_a_session_is_forked_at_a_message() -> None:
    async with clients() as (site, runtime):
        one = await site.open("one")
        session = await one.new()
        await one.say(session, "hello")
        at = one.updates("agent_message_chunk")[0]["messageId"]
        await one.say(session, "hello again")
        point = {"jetbrains": {"air": {"fork": {"version": 1, "messageId": at}}}}
        about = {"sessionId": session, "cwd": str(Path.cwd()), "mcpServers": []}
        for meta, prompts in ((point, 1), ({}, 2)):
            fork = await one.request("session/fork", **about, _meta=meta)
            copy = runtime.get(fork["sessionId"]).snapshot()
            assert [item.type for item in copy.items].count("user") == prompts
            assert await one.say(fork["sessionId"], "and now") == "end_turn"


@pytest.mark.door("acp", "tools")
async def test_an_mcp_server_of_the_client_is_the_agent_s(tmp_path: Path) -> None:
    async with clients(permissions=allow_all) as (site, _):
        one = await site.open("one")
        script = Path(__file__).parents[1] / "demo" / "mcp_server.py"
        env = [{"name": "HEARD", "value": str(tmp_path / "heard")}]
        server = {"name": "mine", "command": sys.executable, "args": [str(script)], "env": env}
        session = await one.new(mcpServers=[server])
        assert await one.say(session, '/tool add {"a": 2, "b": 3}') == "end_turn"
        (call,) = one.tools().values()
        assert call["status"] == "completed"
        assert call["content"][0]["content"]["text"] == "5"


async def test_sessions_of_claude_code_are_sessions_like_others() -> None:
    async with clients(fake=fake_claude("permission")) as (site, _):
        one = await site.open("one")
        session = await one.new(_meta={"agentrt": {"agent": "fake"}})
        prompting = await one.prompt(session, "clean up")
        question = await one.question()
        assert question["params"]["toolCall"]["rawInput"] == {"command": "rm -rf build"}
        await one.choose(question, "allow_once")
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        (call,) = one.tools().values()
        assert (call["status"], call["kind"]) == ("completed", "execute")
        assert "Done." in one.text()
        prompting = await one.prompt(session, "once more")
        await one.led.until(lambda: len(one.led.heard("asked")) == 2)
        await one.notify("session/cancel", sessionId=session)
        assert (await one.led.result(prompting))["stopReason"] == "cancelled"
