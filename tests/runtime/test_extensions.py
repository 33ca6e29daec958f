"""Requests and notifications of the agent's own, served by functions of the program."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from fakes import Script, echo, log_of, session_with

import agentrt
from agentrt import LocalProtocolError, Notice, TurnEnded
from agentrt.errors import RequestError
from agentrt.events import JsonObject
from agentrt.testing import FakeAcpAgent, FakeClaudeAgent, MemoryAgent, open_fake_session
from agentrt.tools import ExtensionContext, extension


class Review(msgspec.Struct, rename="camel"):
    file_path: str
    strict: bool = False


class Verdict(msgspec.Struct, rename="camel"):
    is_good: bool


@extension("_acme.dev/review")
async def review(params: Review) -> Verdict:
    return Verdict(params.file_path == "a.py" and not params.strict)


def asks(answers: list[Any], method: str, params: JsonObject) -> Script:
    """An agent that asks its client this with each prompt."""

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            answers.append(await agent.request(method, params))
            prompt.end()

    return script


def tells(*notifications: tuple[str, Any]) -> Script:
    """An agent that says all this at once with each prompt, and ends its turn."""

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for method, params in notifications:
                agent.send({"method": method, "params": params})
            prompt.end()

    return script


async def test_a_request_is_given_as_the_function_s_type_and_answered_with_its_result() -> None:
    answers: list[Any] = []
    script = asks(answers, "_acme.dev/review", {"filePath": "a.py"})
    async with session_with(script, extensions=[review]) as (session, _):
        await session.run("go")
    assert answers[0]["result"] == {"isGood": True}


async def test_parameters_that_do_not_fit_never_reach_the_function() -> None:
    answers: list[Any] = []
    script = asks(answers, "_acme.dev/review", {"filePath": 3})
    async with session_with(script, extensions=[review]) as (session, _):
        await session.run("go")
    assert answers[0]["error"]["code"] == -32602
    assert "filePath" in answers[0]["error"]["message"]


async def test_an_extension_that_raises_is_an_error_of_its_choice_or_a_failure_in_the_log() -> None:
    @extension("_a/choice")
    async def choice(params: JsonObject) -> None:
        raise RequestError(-32042, "not today", {"until": "noon"})

    @extension("_a/failure")
    async def failure(params: JsonObject) -> None:
        raise OSError("no disk")

    @extension("_a/odd")
    async def odd(params: JsonObject) -> object:
        return object()

    answers: list[Any] = []

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for method in ("_a/choice", "_a/failure", "_a/odd"):
                answers.append((await agent.request(method, {}))["error"])
            prompt.end()

    async with session_with(script, extensions=[choice, failure, odd]) as (session, _):
        await session.run("go")
        failures = [
            event.message
            for event in log_of(session)
            if isinstance(event, Notice) and event.code == "handler_failed"
        ]
    chosen, failed, unsent = answers
    assert chosen == {"code": -32042, "message": "not today", "data": {"until": "noon"}}
    assert (failed["code"], failed["message"]) == (-32603, "OSError: no disk")
    assert unsent["code"] == -32603
    assert len(failures) == 2
    assert failures[0] == "the extension _a/failure failed: OSError: no disk"


async def test_one_that_fails_while_no_turn_runs_is_in_the_log_like_any_other() -> None:
    @extension("_a/failure")
    async def failure(params: JsonObject) -> None:
        raise OSError("no disk")

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.end()
            await agent.request("_a/failure", {})

    async with session_with(script, extensions=[failure]) as (session, _):
        await session.run("go")
        await session.run("again")  # when the first failure has been answered
        told = [e for e in log_of(session) if isinstance(e, TurnEnded | Notice)][:2]
    ended, failed = told
    assert isinstance(ended, TurnEnded)
    assert isinstance(failed, Notice)
    assert failed.message == "the extension _a/failure failed: OSError: no disk"


async def test_what_no_extension_exists_for_is_refused_as_ever() -> None:
    answers: list[Any] = []
    script = asks(answers, "_acme.dev/other", {})
    async with session_with(script, extensions=[review]) as (session, _):
        await session.run("go")
    assert answers[0]["error"]["code"] == -32601


async def test_an_extension_may_know_the_session_and_the_turn() -> None:
    seen: list[ExtensionContext] = []

    @extension("_a/look")
    async def look(params: JsonObject, context: ExtensionContext) -> None:
        seen.append(context)

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.request("_a/look", {})
            prompt.end()
            await agent.request("_a/look", {})

    async with session_with(script, extensions=[look]) as (session, _):
        result = await session.run("go")
        await session.wait_idle()
        while len(seen) < 2:
            await trio.testing.wait_all_tasks_blocked()
        inside, outside = seen
        assert inside.turn is not None
        assert inside.turn.id == result.turn
        assert inside.session is session
        assert outside.turn is None
        assert outside.method == "_a/look"


async def test_an_extension_is_cancelled_with_its_turn() -> None:
    started, cancelled = trio.Event(), trio.Event()

    @extension("_a/wait")
    async def wait(params: JsonObject) -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    answers: list[Any] = []

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            answers.append(await agent.request("_a/wait", {}))
            answers.append(await agent.request("_a/wait", {}))  # behind the cancel
            prompt.end("cancelled")

    async with session_with(script, extensions=[wait]) as (session, _):
        async with session.prompt("go") as turn:
            await started.wait()
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert cancelled.is_set()
    assert [answer["error"]["code"] for answer in answers] == [-32800, -32800]


async def test_an_extension_is_cancelled_when_the_agent_withdraws_its_request() -> None:
    started, cancelled = trio.Event(), trio.Event()

    @extension("_a/wait")
    async def wait(params: JsonObject) -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.send({"id": 77, "method": "_a/wait", "params": {}})
            await started.wait()
            agent.send({"method": "$/cancel_request", "params": {"requestId": 77}})
            await cancelled.wait()
            prompt.end()

    async with session_with(script, extensions=[wait]) as (session, incarnations):
        await session.run("go")
        [answer] = [m for m in incarnations.agents[0].received if m.get("id") == 77]
    assert answer["error"]["code"] == -32800


async def test_notifications_are_served_in_their_order_also_behind_the_end_of_their_turn() -> None:
    heard: list[int] = []

    @extension("_a/step")
    async def step(params: JsonObject) -> None:
        await trio.sleep(0 if params["n"] % 2 else 0.001)
        heard.append(params["n"])

    script = tells(*(("_a/step", {"n": n}) for n in range(20)))
    async with session_with(script, extensions=[step]) as (session, _):
        await session.run("go")
    assert heard == list(range(20))


async def test_a_notification_is_not_answered_whatever_becomes_of_it() -> None:
    @extension("_a/told")
    async def told(params: JsonObject) -> str:
        if params.get("fail"):
            raise ValueError("no")
        return "an answer that nobody asked for"

    script = tells(("_a/told", {}), ("_a/told", {"fail": True}), ("_a/told", [1]))
    async with session_with(script, extensions=[told]) as (session, incarnations):
        await session.run("go")
        await session.wait_idle()
        answers = [m for m in incarnations.agents[0].received if "method" not in m]
        assert [e.code for e in log_of(session) if isinstance(e, Notice)] == ["handler_failed"] * 1
    assert answers == []


async def test_a_cancel_of_the_turn_drops_the_notifications_that_wait() -> None:
    began, heard = trio.Event(), list[int]()

    @extension("_a/step")
    async def step(params: JsonObject) -> None:
        heard.append(params["n"])
        began.set()
        await trio.sleep_forever()

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for n in range(3):
                agent.send({"method": "_a/step", "params": {"n": n}})
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    async with session_with(script, extensions=[step]) as (session, _):
        async with session.prompt("go") as turn:
            await began.wait()
            await trio.testing.wait_all_tasks_blocked()  # until the others have come, too
            turn.cancel()
        await session.wait_idle()
    assert heard == [0]


async def test_more_notifications_than_may_wait_are_dropped_and_reported() -> None:
    heard: list[int] = []
    go_on = trio.Event()

    @extension("_a/step")
    async def step(params: JsonObject) -> None:
        await go_on.wait()
        heard.append(params["n"])

    script = tells(*(("_a/step", {"n": n}) for n in range(50)))
    limits = agentrt.Limits(open_requests=10)
    async with session_with(script, extensions=[step], limits=limits) as (session, _):
        await session.run("go")
        dropped = [
            event
            for event in log_of(session)
            if isinstance(event, Notice) and event.code == "notification_dropped"
        ]
        go_on.set()
        await session.wait_idle()
    assert heard == list(range(10))
    assert 16 <= len(dropped) < 40
    assert "_a/step" in dropped[0].message


async def test_what_is_offered_beside_the_protocol_is_advertised() -> None:
    options = {"capabilities": {"acme.dev": {"review": True}}}
    async with session_with(echo, extensions=[review], options=options) as (_, incarnations):
        [hello] = incarnations.sent("initialize")
    assert hello["params"]["clientCapabilities"]["_meta"] == {"acme.dev": {"review": True}}


async def test_claude_code_s_further_requests_are_served_by_their_subtype() -> None:
    answers: list[Any] = []

    @extension("oauth_token_refresh")
    async def refresh(params: JsonObject) -> JsonObject:
        return {"token": f"new {params['reason']}"}

    async def script(process: MemoryAgent) -> None:
        async with FakeClaudeAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                answers.append(await agent.request("oauth_token_refresh", reason="expired"))
                answers.append(await agent.request("make_coffee"))
                prompt.end("done")

    async with open_fake_session(
        partial(MemoryAgent, script), protocol="claude", extensions=[refresh]
    ) as session:
        await session.run("go")
    served, refused = answers
    assert served["response"] == {"token": "new expired"}
    assert refused["error"] == "unsupported_request: make_coffee"


@pytest.mark.parametrize(
    ("protocol", "method"),
    [
        ("acp", "fs/read_text_file"),
        ("acp", "session/update"),
        ("acp", "session/anything"),
        ("claude", "can_use_tool"),
        ("codex", "item/tool/call"),
        ("codex", "turn/completed"),
        ("codex", "mcpServer/elicitation/request"),
    ],
)
async def test_what_agentrt_serves_itself_is_not_to_be_extended(protocol: Any, method: str) -> None:
    @extension(method)
    async def take(params: JsonObject) -> None: ...

    agent = agentrt.Agent(name="x", protocol=protocol, command=("true",))
    with pytest.raises(LocalProtocolError, match="agentrt itself"):
        async with agentrt.open_session(agent, extensions=[take]):
            pass


async def test_extensions_that_cannot_be_meant_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="async function"):
        extension("_a")(lambda params: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="has a name"):
        extension(review)  # type: ignore[arg-type]

    async def three(a: object, b: object, c: object) -> None: ...

    async def by_name(*, params: object) -> None: ...

    async def untyped(params: trio.Event) -> None: ...

    for wrong in (three, by_name, untyped):
        with pytest.raises(TypeError, match="_a: "):
            extension("_a")(wrong)
    for given in ([review, review], review, [three]):
        with pytest.raises((TypeError, ValueError), match="extension"):
            async with agentrt.open_session("demo", extensions=given):  # type: ignore[arg-type]
                pass


def test_the_decorated_function_can_be_called_as_it_is() -> None:
    async def double(params: int) -> int:
        return 2 * params

    made = extension("_a/double")(double)
    assert made.function is double
    assert made.method == "_a/double"
