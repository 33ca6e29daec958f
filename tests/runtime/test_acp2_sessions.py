"""Sessions in version 2 of ACP: the same events as in version 1, and ends that match the turns."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
import trio
from fakes import asking, echo, every, log_of, obedient, session_with

import agentrt
from agentrt.testing import FakeAcpAgent, check_log

V2: dict[str, Any] = {"fake": {"version": 2}, "acp_version": 2}


async def rich(agent: FakeAcpAgent) -> None:
    """A thought, a tool call, a question, text on both sides, and usage."""
    async for prompt in agent.prompts:
        agent.think("hm")
        agent.say("I run it.")
        agent.use("c1", "Run ls", kind="execute", rawInput={"command": "ls"})
        chosen = await agent.ask("c1", "Run ls")
        agent.used("c1", f"chose {chosen}", failed=chosen == "no")
        agent.say("Done.")
        prompt.end()


async def failing(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        agent.say("half")
        prompt.fail(-32603, "boom")


async def asked_while_cancelled(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        chosen = await agent.ask()
        await prompt.cancelled.wait()
        prompt.end("cancelled" if chosen is None else "end_turn")


def neutral(session: agentrt.Session) -> list[Any]:
    """The log without the values that may differ between the versions."""
    kept = []
    for event in log_of(session):
        plain = msgspec.to_builtins(event)
        if plain["kind"] == "state":
            continue
        item = plain.get("item")
        for holder in (plain, item if isinstance(item, dict) else {}):
            for name in ("message", "request", "raw", "started", "since"):
                holder.pop(name, None)
        kept.append(plain)
    return kept


async def log(version: int, script: Any, policy: Any) -> list[Any]:
    options: dict[str, Any] = V2 if version == 2 else {}
    async with session_with(script, permissions=policy, **options) as (session, _):
        for text in ("go", "again"):
            with suppress(agentrt.errors.AgentFailed):
                await session.run(text)
        check_log(log_of(session), whole=False)
        return neutral(session)


@pytest.mark.parametrize(
    ("script", "policy"),
    [
        (echo, None),
        (rich, agentrt.allow_all),
        (rich, agentrt.deny_all),
        (failing, None),
        (asking, agentrt.allow_all),
    ],
)
async def test_both_versions_have_the_same_events(
    autojump_clock: trio.abc.Clock, script: Any, policy: Any
) -> None:
    one = await log(1, script, policy)
    two = await log(2, script, policy)
    for first, second in zip(one, two, strict=True):
        assert first == second


@pytest.mark.parametrize("version", [1, 2])
async def test_a_cancelled_turn_ends_and_the_next_prompt_is_answered(
    autojump_clock: trio.abc.Clock, version: int
) -> None:
    async with session_with(obedient, **(V2 if version == 2 else {})) as (session, agents):
        for _ in range(20):
            async with session.prompt("go") as turn:
                turn.cancel()  # in the same write as the prompt
                await every(turn)
            assert turn.result.outcome == "cancelled"
        assert len(agents.processes) == 1
        methods = [each.get("method") for each in agents.agents[0].received]
        assert methods.count("session/cancel") == 20
        pairs = [m for m in methods if m in ("session/prompt", "session/cancel")]
        assert pairs == ["session/prompt", "session/cancel"] * 20, "no cancel overtakes its prompt"


async def test_a_prompt_that_is_cancelled_before_its_insertion_ends_in_both_measured_ways(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def refuses(agent: FakeAcpAgent) -> None:
        quiet = True
        async for prompt in agent.prompts:
            if prompt.text == "answer":
                agent.say("yes")
                prompt.end()
                continue
            await prompt.cancelled.wait()
            if not quiet:
                agent.state("running")
                agent.state("idle", stopReason="cancelled")
            quiet = not quiet
            prompt.fail(-32800, "Request cancelled")

    async with session_with(refuses, **V2) as (session, agents):
        for _ in range(4):
            async with session.prompt("go") as turn:
                turn.cancel()
                await every(turn)
            assert turn.result.outcome == "cancelled"
            assert (await session.run("answer")).text == "yes"
        assert len(agents.processes) == 1


async def test_an_agent_that_ignores_a_cancel_is_replaced(autojump_clock: trio.abc.Clock) -> None:
    async def deaf(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.say("working")
            await trio.sleep_forever()
            prompt.end()

    async with session_with(deaf, echo, **V2) as (session, agents):
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert (await session.run("next")).text == "next"
        assert len(agents.processes) == 2


async def test_the_agents_own_work_is_a_turn_and_the_next_prompt_waits_for_its_end(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def works(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.say("first" if prompt.text == "go" else "second")
            prompt.end()
            if prompt.text == "go":
                agent.state("running")
                agent.update("agent_message_chunk", messageId="own", content=OWN)
                await trio.sleep(30)  # longer than the silence that ends other own turns
                agent.state("idle", stopReason="end_turn")

    async with session_with(works, **V2) as (session, _):
        assert (await session.run("go")).text == "first"
        await trio.testing.wait_all_tasks_blocked()
        assert (await session.run("more")).text == "second"
        origins = [each.origin for each in session.snapshot().turns]
        assert origins == ["user", "agent", "user"]
        assert [each.outcome for each in session.snapshot().turns] == ["completed"] * 3


OWN = {"type": "text", "text": "by myself"}


async def test_own_work_before_the_insertion_is_not_part_of_the_answer(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def races(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.state("running")
            agent.update("agent_message_chunk", messageId="own", content=OWN)
            agent.state("idle", stopReason="cancelled")
            agent.say("the answer")
            prompt.end()

    async with session_with(races, **V2) as (session, _):
        result = await session.run("go")
        assert (result.text, result.outcome) == ("the answer", "completed")


async def test_a_background_command_is_stopped_by_its_own_request(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def background(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.update(
                "terminal_update", terminalId="T", command="make", capabilities={"cancel": {}}
            )
            agent.use("c", "make", content=[{"type": "terminal", "terminalId": "T"}])
            agent.used("c")
            prompt.end(background=[{"type": "terminal", "terminalId": "T"}])
            async for request in agent.requests:
                agent.result(request["id"], {})
                agent.update("terminal_update", terminalId="T", exitStatus={"signal": "SIGTERM"})
                agent.state("idle", background=[])
                agent.state("running")
                agent.update("agent_message_chunk", messageId="own", content=OWN)
                agent.state("idle", stopReason="end_turn")

    async with session_with(
        background, fake={"version": 2, "answers": ["terminal/cancel"]}, acp_version=2
    ) as (session, agents):
        await session.run("go")
        (task,) = session.snapshot().tasks
        assert (task.title, task.status) == ("make", "running")
        await session.stop_task(task.id)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.status for each in session.snapshot().tasks] == ["failed"]
        assert len(agents.sent("terminal/cancel")) == 1
        assert [each.origin for each in session.snapshot().turns] == ["user", "agent"]


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        (
            "Edit(/w/secret.txt)",
            {
                "type": "tool_call",
                "toolCall": {
                    "toolCallId": "c",
                    "title": "Move",
                    "kind": "edit",
                    "content": [
                        {
                            "type": "diff",
                            "changes": [
                                {
                                    "operation": "move",
                                    "oldPath": "/w/secret.txt",
                                    "path": "/w/public.txt",
                                }
                            ],
                        }
                    ],
                },
            },
        ),
        (
            "Edit(/w/secret.txt)",
            {
                "type": "tool_call",
                "toolCall": {
                    "toolCallId": "c",
                    "kind": "edit",
                    "content": [
                        {
                            "type": "diff",
                            "changes": [{"operation": "modify", "path": "/w/secret.txt"}],
                        }
                    ],
                },
            },
        ),
        ("Bash(rm:*)", {"type": "command", "command": "rm -r x", "cwd": "/w"}),
        ("Bash(rm:*)", None),
        ("Bash(rm:*)", {"type": "_ritual"}),
        ("Edit(/w/secret.txt)", None),
    ],
)
async def test_a_deny_rule_meets_what_a_question_is_about(
    autojump_clock: trio.abc.Clock, rule: str, params: Any
) -> None:
    async def asks(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.take()
            answer = await agent.request(
                "session/request_permission",
                {
                    "title": "May I?",
                    "subject": params,
                    "options": [
                        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                        {"optionId": "no", "name": "No", "kind": "reject_once"},
                    ],
                },
            )
            agent.say(answer["result"]["outcome"].get("optionId", "none"))
            prompt.end()

    policy = agentrt.rules(deny=[rule], otherwise=agentrt.allow_all)
    async with session_with(asks, permissions=policy, cwd="/", **V2) as (session, _):
        assert (await session.run("go")).text in ("no", "none")


@pytest.mark.parametrize("option", ["files", "terminals"])
async def test_own_files_and_terminals_are_refused_with_version_2(option: str) -> None:
    class Service:
        async def read_text_file(self, path: str) -> str:
            return ""

    options: Any = {option: Service()}
    with pytest.raises((ValueError, TypeError), match="version 2 of ACP uses its own files"):
        async with session_with(echo, **options, **V2):
            pass
