"""The AI SDK's own chat, over its own WebSocket transport, against a site.

First the eight scenarios that a chat is known to break in; then what else a chat can do.
"""

from __future__ import annotations

import base64

import pytest
import trio

from agentrt import allow_all
from agentrt.testing import FakeAcpAgent
from clients.chat import Chat, Tabs, tabs, tabs_at_work
from clients.kit import TOKEN, WATCH, fake_claude, node, served_script

pytestmark = [pytest.mark.usefixtures("npm_packages"), pytest.mark.slow]


@pytest.mark.door("ai", "prompt", "stream")
async def test_a_turn_shows_thoughts_tools_and_text_and_ends_ready() -> None:
    async with tabs(permissions=allow_all) as (site, _):
        chat = await site.open("one")
        parts = await chat.say("/tools")
        assert chat.now()["status"] == "ready"
        assert {state for _, state in chat.tools()} == {"output-available", "output-error"}
        assert all(p["providerExecuted"] for p in parts if "toolCallId" in p)
        assert "Those were all kinds of tool calls" in chat.text()
        assert not chat.led.heard("called"), "the application was asked to run the agent's tools"
        thoughts = [p for p in await chat.say("/think") if p["type"] == "reasoning"]
        assert thoughts
        assert all(p["state"] == "done" for p in thoughts)
        await chat.is_valid()


async def test_a_chat_that_is_cut_off_resumes_and_shows_the_message_once() -> None:
    async with tabs_at_work() as (site, _, gate):
        chat = await site.open("one")
        sending = await chat.start("send", text="work")
        await chat.until_tool("input-available")
        await chat.do("cut")
        await chat.until("error")
        assert chat.finishes()[-1]["isDisconnect"]
        await chat.led.result(sending)
        resuming = await chat.start("resume")
        await chat.until("streaming")
        gate.set()
        await chat.led.result(resuming)
        assert chat.now()["status"] == "ready"
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        assert chat.tools() == [("other", "output-available")]
        assert "Done: work" in chat.text()
        await chat.is_valid()


async def test_an_empty_second_tab_resumes_the_running_turn_and_both_show_the_same() -> None:
    async with tabs_at_work() as (site, _, gate):
        one, two = await site.open("one"), await site.open("two")
        sending = await one.start("send", text="work")
        await one.until_tool("input-available")
        resuming = await two.start("resume")
        await two.until_tool("input-available")
        gate.set()
        await one.led.result(sending)
        await two.led.result(resuming)
        assert one.now()["messages"][-1] == two.now()["messages"][-1]
        assert two.now()["status"] == "ready"


async def test_a_message_into_a_running_turn_is_refused_and_the_turn_unharmed() -> None:
    async with tabs_at_work() as (site, _, gate):
        one, two = await site.open("one"), await site.open("two")
        sending = await one.start("send", text="work")
        await one.until_tool("input-available")
        await two.do("send", text="me too")
        assert two.now()["status"] == "error"
        assert "(busy)" in two.now()["error"]
        gate.set()
        await one.led.result(sending)
        assert one.now()["status"] == "ready"
        assert "Done: work" in one.text()


@pytest.mark.door("ai", "cancel")
async def test_a_stop_in_another_tab_cancels_the_turn_and_its_tool_for_both() -> None:
    async with tabs_at_work() as (site, _, _):
        one, two = await site.open("one"), await site.open("two")
        sending = await one.start("send", text="work")
        await one.until_tool("input-available")
        resuming = await two.start("resume")
        await two.until_tool("input-available")
        await two.do("stop")
        await one.led.result(sending)
        await two.led.result(resuming)
        assert one.tools() == [("other", "output-error")]
        assert one.finishes()[-1]["finishReason"] == "interrupted"
        assert one.now()["status"] == two.now()["status"] == "ready"
        assert two.tools() == [("other", "input-available")]  # the SDK listens no more
        await two.do("resume")
        assert two.tools() == [("other", "output-error")]
        await one.say("hello")
        assert one.now()["status"] == "ready"


async def test_after_a_stop_of_its_own_a_tab_is_ready_and_a_resume_closes_its_tool() -> None:
    async with tabs_at_work() as (site, runtime, _):
        chat = await site.open("one")
        sending = await chat.start("send", text="work")
        await chat.until_tool("input-available")
        await chat.do("stop")
        await chat.led.result(sending)
        assert chat.now()["status"] == "ready"
        await chat.do("resume")
        assert chat.tools() == [("other", "output-error")]
        assert runtime.list()[0].phase == "idle"
        await chat.say("hello")
        assert chat.now()["status"] == "ready"
        await chat.is_valid()


async def test_a_question_ends_the_stream_and_the_answer_alone_sends_nothing() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        await chat.say("/ask")
        part = await chat.until_tool("approval-requested")
        assert chat.now()["status"] == "ready"
        await chat.do("answer", id=part["approval"]["id"], approved=True)
        assert part["approval"]["requestReason"]
        kinds = {option["kind"] for option in part["approval"]["descriptor"]["options"]}
        assert {"allow_once", "reject_once"} <= kinds
        assert runtime.list()[0].phase == "waiting"
        await chat.do("send")  # without a message: what was answered
        assert "Allowed, so I did nothing" in chat.text()
        await chat.is_valid()


@pytest.mark.parametrize(
    ("approved", "state", "words"),
    [
        (True, "output-available", "Allowed, so I did nothing"),
        (False, "output-denied", ""),
    ],
)
@pytest.mark.door("ai", "permission")
async def test_an_answer_goes_on_with_the_same_message(
    approved: bool, state: str, words: str
) -> None:
    async with tabs() as (site, _):
        chat = await site.open("one", answers=True)
        await chat.say("/ask")
        part = await chat.until_tool("approval-requested")
        await chat.do("answer", id=part["approval"]["id"], approved=approved)
        await chat.until_tool(state)
        await chat.led.until(lambda: len(chat.finishes()) == 2)
        await chat.until("ready")
        assert words in chat.text()
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        await chat.is_valid()


async def two_questions(agent: FakeAcpAgent) -> None:
    """A tool that runs, and two beside it that ask at the same time."""
    async for prompt in agent.prompts:
        agent.say("Working")
        for call in ("runs", "call_1", "call_2"):
            status = "in_progress" if call == "runs" else "pending"
            agent.update("tool_call", toolCallId=call, title=call, status=status)
        chosen: dict[str, str | None] = {}

        async def ask(call: str, chosen: dict[str, str | None] = chosen) -> None:
            chosen[call] = await agent.ask(call, f"May {call} run?")
            agent.update("tool_call_update", toolCallId=call, status="completed")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "call_1")
            nursery.start_soon(ask, "call_2")
        agent.update("tool_call_update", toolCallId="runs", status="completed")
        agent.say(f"{chosen['call_1']} {chosen['call_2']}")
        prompt.end()


async def test_a_stock_chat_goes_on_although_another_tool_runs() -> None:
    """What runs beside a question is shown as approved: the SDK goes on only then."""
    async with served_script(two_questions) as (site, _), node("ai_client.mjs") as led:
        chat = await Tabs(led, site).open("one", answers=True)
        await chat.say("go")
        runs = await chat.until_tool("approval-responded")
        assert (runs["title"], runs["approval"]["isAutomatic"]) == ("runs", True)
        for _ in range(2):  # they may be asked together, or one after the other
            asked = await chat.until_tool("approval-requested")
            await chat.until("ready")
            await chat.do("answer", id=asked["approval"]["id"], approved=True)
        await chat.led.until(lambda: "yes yes" in chat.text())
        await chat.until("ready")
        assert {state for _, state in chat.tools()} == {"output-available"}
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        await chat.is_valid()


async def test_an_option_can_be_named_where_yes_is_not_enough() -> None:
    async with tabs() as (site, _):
        chat = await site.open("one", answers=True)
        await chat.say("/ask")
        part = await chat.until_tool("approval-requested")
        id, choices = part["approval"]["id"], part["approval"]["descriptor"]["options"]
        always = next(choice["id"] for choice in choices if choice["kind"] == "allow_always")
        options = {"body": {"answers": {id: {"option": always}}}}
        await chat.do("answer", id=id, approved=True, options=options)
        await chat.until_tool("output-available")
        await chat.until("ready")
        await chat.say("/ask")
        assert chat.tools() == [("execute", "output-available")], "it was to be asked no more"


async def test_another_viewer_s_answer_is_seen_by_a_tab_that_resumes() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        await chat.say("/ask")
        session = runtime.get(runtime.list()[0].session)
        (request,) = session.pending_permissions
        session.answer(request, "allow_once")
        await chat.do("resume")
        assert "Allowed, so I did nothing" in chat.text()
        assert chat.tools() == [("execute", "output-available")]
        await chat.is_valid()


async def test_a_form_is_filled_in_with_the_answer() -> None:
    async with tabs() as (site, _):
        chat = await site.open("one", answers=True)
        await chat.say("/form")
        part = await chat.until_tool("approval-requested")
        assert part["toolName"] == "question"
        assert part["approval"]["descriptor"]["form"]["properties"]
        id = part["approval"]["id"]
        body = {"answers": {id: {"content": {"city": "Reykjavík"}}}}
        await chat.do("answer", id=id, approved=True, options={"body": body})
        await chat.led.until(lambda: len(chat.finishes()) == 2)
        await chat.until("ready")
        assert "Reykjavík" in chat.text()
        assert chat.tools() == [("question", "output-available")]
        await chat.is_valid()


RECORD = {"name": "record", "description": "Record it.", "input_schema": {"type": "object"}}


@pytest.mark.door("ai", "tools")
async def test_a_tool_of_the_application_is_run_by_it_and_the_turn_goes_on() -> None:
    async with tabs(permissions=allow_all) as (site, _):
        body = {"tools": [RECORD]}
        chat = await site.open("one", tools={"record": {"recorded": 7}}, body=body)
        await chat.start("send", text='/tool record {"summary": "x"}')
        await chat.led.until(lambda: "The tool `record` completed" in chat_text(chat))
        await chat.until("ready")
        (called,) = chat.led.heard("called")
        assert called["tool"]["toolName"] == "record"
        assert called["tool"]["input"] == {"summary": "x"}
        parts = [part for part in chat.parts() if "toolCallId" in part]
        own = [part for part in parts if not part["providerExecuted"]]
        assert [part["toolName"] for part in own] == ["record"]
        assert own[0]["state"] == "output-available"
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        await chat.is_valid()
        assert len(chat.finishes()) == 2, "it must not be sent again and again"


def chat_text(chat: Chat) -> str:
    messages = chat.now()["messages"]
    return chat.text() if messages and messages[-1]["role"] == "assistant" else ""


async def test_a_stop_while_a_tool_of_the_application_waits_leaves_nothing_open() -> None:
    """The seed of it all: an agent's tool runs, the client has one of its own, and there is a
    stop."""
    async with tabs(permissions=allow_all) as (site, runtime):
        body = {"tools": [RECORD]}
        chat = await site.open("one", tools={"record": 7}, body=body)
        sending = await chat.start("send", text="/slow 600")
        await chat.until_tool("input-available")
        await chat.do("stop")
        await chat.led.result(sending)
        assert chat.now()["status"] == "ready"
        assert not chat.led.heard("called")
        session = runtime.get(runtime.list()[0].session)
        await chat.do("resume")
        assert chat.tools() == [("execute", "output-error")]
        assert session.state.turn is None
        await chat.start("send", text="/tool record {}")
        await chat.led.until(lambda: "The tool `record` completed" in chat_text(chat))


# --- messages that come when the chat is ready and the turn is not over


@pytest.mark.parametrize("trims", [False, True])
async def test_a_message_while_a_tool_of_the_application_waits_goes_first(trims: bool) -> None:
    async with tabs(permissions=allow_all) as (site, runtime):
        chat = await site.open("one", body={"tools": [RECORD]}, trims=trims)
        await chat.say("/tool record {}")
        assert (chat.now()["status"], chat.tools()[-1]) == ("ready", ("record", "input-available"))
        await chat.say("hello")
        assert chat.now()["status"] == "ready"
        assert "built-in demo agent" in chat.text()
        assert chat.pending() == []
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"] * 2
        session = runtime.get(runtime.list()[0].session)
        assert [turn.outcome for turn in session.snapshot().turns] == ["cancelled", "completed"]
        await chat.is_valid()


@pytest.mark.parametrize("trims", [False, True])
async def test_a_message_directly_behind_a_stop_waits_for_its_end(trims: bool) -> None:
    async with tabs_at_work() as (site, runtime, _):
        chat = await site.open("one", trims=trims)
        sending = await chat.start("send", text="work")
        await chat.until_tool("input-available")
        stopping = await chat.start("stop")
        more = await chat.start("send", text="hello")
        for number in (sending, stopping, more):
            await chat.led.result(number)
        assert chat.now()["status"] == "ready"
        assert chat.text() == "Done: hello"
        assert chat.pending() == []
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"] * 2
        assert chat.now()["messages"][1]["parts"][0]["state"] == "output-error"
        assert runtime.list()[0].phase == "idle"
        await chat.is_valid()


async def test_a_message_instead_of_an_answer_takes_the_question_back() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        await chat.say("/ask")
        await chat.until_tool("approval-requested")
        await chat.say("hello")
        assert chat.now()["status"] == "ready"
        assert chat.pending() == []
        assert runtime.list()[0].phase == "idle"
        assert "built-in demo agent" in chat.text()
        await chat.is_valid()


async def test_a_message_beside_an_answer_waits_for_the_rest_of_the_turn() -> None:
    """The application has answered, and sends that only with the next message."""
    async with tabs(permissions=allow_all) as (site, runtime):
        chat = await site.open("one", body={"tools": [RECORD]})
        await chat.say("/tool record {}")
        call = next(part for part in chat.parts() if part.get("providerExecuted") is False)
        await chat.do("output", tool="record", toolCallId=call["toolCallId"], output="it is done")
        await chat.say("hello")
        assert "built-in demo agent" in chat.text()
        assert "The tool `record` completed" in chat.said()[1]
        session = runtime.get(runtime.list()[0].session)
        assert [turn.outcome for turn in session.snapshot().turns] == ["completed", "completed"]
        assert chat.pending() == []
        await chat.is_valid()


async def test_a_message_waits_when_the_turn_went_on_without_the_chat() -> None:
    """It is ready, and was not told so."""
    async with tabs(permissions=allow_all) as (site, _):
        chat = await site.open("one", body={"tools": [RECORD]})
        await chat.say("/tool record {}")
        await chat.do("cut")  # the tool fails: the turn goes on
        await chat.led.until(lambda: chat.led.heard("closed"))
        await chat.say("hello")
        assert chat.now()["status"] == "ready"
        assert chat.pending() == []
        assert "The tool `record` failed" in chat.said()[1]


async def test_a_message_that_was_taken_out_of_the_chat_does_not_come_back() -> None:
    async with tabs_at_work() as (site, _, _):
        chat = await site.open("one")
        sending = await chat.start("send", text="work")
        await chat.until_tool("input-available")
        await chat.do("stop")
        await chat.led.result(sending)
        again = await chat.start("again")
        await chat.until_tool("input-available")
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        await chat.do("stop")
        await chat.led.result(again)
        await chat.do("resume")
        assert chat.pending() == []


async def test_a_message_behind_a_stop_of_the_first_one_waits_for_the_session() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        sending = await chat.start("send", text="never mind")
        stopping = await chat.start("stop")
        more = await chat.start("send", text="hello")
        for number in (sending, stopping, more):
            await chat.led.result(number)
        assert (chat.now()["status"], len(runtime.list())) == ("ready", 1)
        assert "built-in demo agent" in chat.text()


async def test_what_waits_for_the_client_is_stopped_by_a_resume_that_says_so() -> None:
    async with tabs(permissions=allow_all) as (site, runtime):
        chat = await site.open("one", body={"tools": [RECORD]})
        await chat.say("/tool record {}")
        await chat.do("stop")  # the SDK is ready: it sends nothing
        assert runtime.list()[0].phase == "waiting"
        await chat.do("resume", options={"body": {"stop": True}})
        assert runtime.list()[0].phase == "idle"
        assert chat.tools()[-1] == ("record", "output-error")
        assert (chat.pending(), chat.now()["status"]) == ([], "ready")
        assert chat.finishes()[-1]["finishReason"] == "interrupted"
        await chat.is_valid()


async def test_a_resume_that_stops_means_the_turn_that_the_chat_has_left() -> None:
    """Not the one that has begun behind it."""
    async with tabs_at_work() as (site, _, gate):
        one, two = await site.open("one"), await site.open("two")
        sending = await one.start("send", text="work")
        await one.until_tool("input-available")
        other = await two.start("send", text="work", body={"when": "queue"})
        await one.do("stop")
        await two.until_tool("input-available")
        resuming = await one.start("resume", options={"body": {"stop": True}})
        await one.led.until(lambda: len(one.now()["messages"]) == 3)
        gate.set()
        for number in (sending, other, resuming):
            await one.led.result(number)
        assert (two.text(), one.text()) == ("Done: work", "Done: work")
        assert one.pending() == two.pending() == []
        assert one.now()["messages"][1]["parts"][0]["state"] == "output-error"


async def test_a_viewer_s_resume_stops_nothing() -> None:
    async with tabs_at_work() as (site, runtime, _):
        one, two = await site.open("one"), await site.open("two", token=WATCH)
        await one.start("send", text="work")
        await one.until_tool("input-available")
        await two.do("resume", options={"body": {"stop": True}})
        assert "(forbidden)" in two.now()["error"]
        assert runtime.list()[0].phase == "running"


async def test_the_tool_of_an_application_that_has_gone_fails_and_the_turn_ends() -> None:
    async with tabs(permissions=allow_all) as (site, runtime):
        chat = await site.open("one", body={"tools": [RECORD]})
        await chat.say("/tool record {}")
        assert runtime.list()[0].phase == "waiting"
        await chat.do("cut")
        session = runtime.get(runtime.list()[0].session)
        await session.wait_idle()
        other = await site.open("two")
        await other.do("resume")
        assert "The tool `record` failed" in other.text()
        assert {state for _, state in other.tools()} == {"output-error"}


async def test_after_a_reload_the_application_s_tools_are_its_own_again() -> None:
    async with tabs(permissions=allow_all) as (site, _):
        body = {"tools": [RECORD], "client": "a word that the page keeps"}
        chat = await site.open("one", body=body)
        await chat.say("hello")
        await chat.do("cut")
        again = await site.open("two", tools={"record": 7}, body=body)
        await again.do("resume")
        await again.start("send", text="/tool record {}")
        await again.led.until(lambda: "The tool `record` completed" in chat_text(again))
        await again.until("ready")
        assert [called["called"] for called in again.led.heard("called")] == ["two"]


async def test_a_call_of_the_application_s_tool_waits_for_the_page_that_is_reloaded() -> None:
    async with tabs(permissions=allow_all) as (site, _):
        body = {"tools": [RECORD], "client": "a word that the page keeps"}
        chat = await site.open("one", body=body)
        await chat.say("/tool record {}")
        assert chat.tools()[-1] == ("record", "input-available")
        await chat.do("cut")
        again = await site.open("two", tools={"record": 7}, body=body)
        await again.start("resume")
        await again.led.until(lambda: "The tool `record` completed" in chat_text(again))
        await again.until("ready")
        assert again.tools()[-1] == ("record", "output-available")
        await again.is_valid()


async def test_a_reloaded_page_that_names_its_tools_only_later_keeps_its_calls() -> None:
    async with tabs(permissions=allow_all) as (site, _):
        me = {"client": "a word that the page keeps"}
        chat = await site.open("one", body={"tools": [RECORD], **me})
        await chat.say("/tool record {}")
        await chat.do("cut")
        again = await site.open("two", tools={"record": 7}, body=me)
        await again.start("resume")
        await again.led.until(lambda: "The tool `record` completed" in chat_text(again))


@pytest.mark.parametrize(
    ("command", "reason"),
    [("/refuse", "content-filter"), ("/limit tokens", "length"), ("/markdown", "stop")],
)
async def test_an_outcome_is_a_finish_reason(command: str, reason: str) -> None:
    async with tabs() as (site, _):
        chat = await site.open("one")
        await chat.say(command)
        assert chat.now()["status"] == "ready"
        assert chat.finishes()[-1]["finishReason"] == reason


@pytest.mark.parametrize(
    ("command", "words"), [("/error", "An error, as asked for"), ("/crash", "")]
)
async def test_a_failure_is_the_chat_s_error_and_the_next_message_works(
    command: str, words: str
) -> None:
    async with tabs() as (site, _):
        chat = await site.open("one")
        await chat.do("send", text=command)
        assert chat.now()["status"] == "error"
        assert words in chat.now()["error"]
        await chat.say("hello")
        assert chat.now()["status"] == "ready"


async def test_files_of_a_message_reach_the_agent() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        picture = base64.b64encode(b"\x89PNG").decode()
        files = [
            {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{picture}"},
            {
                "type": "file",
                "mediaType": "text/html",
                "url": "https://example.org/a",
                "filename": "a",
            },
        ]
        await chat.do("send", text="look", files=files)
        session = runtime.get(runtime.list()[0].session)
        (said,) = (item for item in session.snapshot().items if item.type == "user")
        kinds = [type(block).__name__ for block in said.content]
        assert kinds == ["Image", "ResourceLink", "Text"]


async def test_media_plans_and_the_session_are_parts_of_the_message() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        parts = await chat.say("/media")
        assert {p["mediaType"] for p in parts if p["type"] == "file"} == {"image/png", "audio/wav"}
        assert [p["url"] for p in parts if p["type"] == "source-url"]
        plans = [p for p in await chat.say("/plan") if p["type"] == "data-plan"]
        assert {entry["status"] for entry in plans[0]["data"]} == {"completed"}
        about = chat.now()["messages"][-1]["metadata"]
        assert about["session"] == runtime.list()[0].session
        assert about["outcome"] == "completed"
        await chat.is_valid()


@pytest.mark.door("ai", "resume")
async def test_a_chat_may_be_a_session_that_is_open_already() -> None:
    async with tabs() as (site, runtime):
        session = await runtime.create("demo")
        await session.run("/think")
        chat = await site.open("one", id=session.id)
        await chat.do("resume")
        assert [p["type"] for p in chat.parts()][-2:] == ["reasoning", "text"]
        await chat.say("hello")
        assert len(runtime.list()) == 1


@pytest.mark.door("ai", "fork")
async def test_a_new_chat_may_go_on_with_a_copy_of_another_one() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        await chat.say("hello")
        at = chat.now()["messages"][-1]["id"]
        await chat.say("hello again")
        copy = await site.open("two", id="other", body={"fork": "chat", "at": at})
        await copy.say("and now")
        words = [
            [b.text for item in runtime.get(info.session).snapshot().items for b in item.content]
            for info in runtime.list()
        ]
        assert words == [["hello", "hello again"], ["hello", "and now"]]
        lost = await site.open("three", id="third", body={"fork": "nobody"})
        await lost.do("send", text="hello")
        assert "no session 'nobody'" in str(lost.now()["error"])


async def test_a_chat_that_never_was_has_nothing_to_resume() -> None:
    async with tabs() as (site, _):
        chat = await site.open("one")
        await chat.do("resume")
        assert chat.now() == {**chat.now(), "status": "ready", "messages": []}


async def test_a_message_may_wait_or_interrupt_if_the_application_says_so() -> None:
    async with tabs_at_work() as (site, _, _):
        one, two = await site.open("one"), await site.open("two")
        first = await one.start("send", text="work")
        await one.until_tool("input-available")
        waiting = await two.start("send", text="hello", body={"when": "queue"})
        third = await site.open("three")
        urgent = await third.start("send", text="more", body={"when": "interrupt"})
        await one.led.result(first)
        assert one.finishes()[0]["finishReason"] == "interrupted"
        await third.led.result(urgent)
        await two.led.result(waiting)
        assert (third.text(), two.text()) == ("Done: more", "Done: hello")
        assert two.now()["status"] == "ready"


async def test_a_stop_may_be_only_the_client_s_own() -> None:
    async with tabs_at_work() as (site, runtime, gate):
        chat = await site.open("one", body={"abort": "detach"})
        sending = await chat.start("send", text="work")
        await chat.until_tool("input-available")
        await chat.do("stop")
        await chat.led.result(sending)
        assert runtime.list()[0].phase == "running"
        gate.set()
        await chat.do("resume")
        assert chat.tools() == [("other", "output-available")]


async def test_an_answer_is_made_again_by_the_same_words() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        await chat.say("/think")
        await chat.do("again")
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        session = runtime.get(runtime.list()[0].session)
        assert len(session.snapshot().turns) == 2


async def test_the_agent_is_the_application_s_to_choose() -> None:
    async with tabs(fake=fake_claude("permission")) as (site, runtime):
        chat = await site.open("one", answers=True, body={"agent": "fake", "title": "mine"})
        await chat.say("clean up")
        assert [(info.agent, info.title) for info in runtime.list()] == [("fake", "mine")]
        part = await chat.until_tool("approval-requested")
        assert (part["toolName"], part["input"]) == ("Bash", {"command": "rm -rf build"})
        await chat.do("answer", id=part["approval"]["id"], approved=True)
        await chat.until_tool("output-available")
        await chat.until("ready")
        assert "Done." in chat.text()
        other = await site.open("two", id="other", body={"agent": "nobody"})
        await other.do("send", text="hello")
        assert other.now()["status"] == "error"
        assert "nobody" in other.now()["error"]


async def test_a_viewer_sees_turns_and_stops_and_says_nothing() -> None:
    async with tabs_at_work() as (site, runtime, gate):
        one, two = await site.open("one"), await site.open("two", token=WATCH)
        await two.do("send", text="hello")
        assert "(forbidden)" in two.now()["error"]
        assert not runtime.list()
        sending = await one.start("send", text="work")
        await one.until_tool("input-available")
        await two.start("resume")
        await two.until_tool("input-available")
        await two.do("stop")
        await two.do("send", text="hello")
        assert "(forbidden)" in two.now()["error"]
        gate.set()
        await one.led.result(sending)
        assert one.tools() == [("other", "output-available")]


async def test_without_a_token_there_is_no_chat() -> None:
    async with tabs() as (site, _):
        chat = await site.open("one", token="not the token at all")
        await chat.do("send", text="hello")
        assert chat.now()["status"] == "error"
        await chat.led.until(lambda: chat.led.heard("closed"))
        assert chat.led.heard("closed")[0]["code"] == 4401
        token = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
        offered = ["agentrt.ai", f"agentrt.token.{token}"]
        page = await site.open("two", headers={}, protocols=offered)
        await page.say("hello")
        assert page.now()["status"] == "ready"
