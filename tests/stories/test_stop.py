"""A page showed a tool as running for ever after Stop, and the session as busy: the flag was stored
in two places, and only one of them was told."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import trio
from msgspec import structs

import agentrt
from hostile.bad_agent import Agent, Message, Tools
from hostile.kit import PATIENT, SHORT, Marks, bad_session, told, until, works

OVER = {"completed", "failed", "denied", "cancelled", "orphaned"}


def runs_a_tool(agent: Agent, prompt: Message) -> None:
    """What it does about the cancel, `arg` says."""
    agent.say("I will build it")
    agent.update("tool_call", toolCallId="c", title="Build", status="in_progress")
    agent.update("tool_call_update", toolCallId="c", rawOutput="half")
    agent.wait_for("session/cancel")
    match agent.arg:
        case "says nothing about the tool":
            agent.end(prompt, "cancelled")
        case "goes on with the tool":
            agent.update("tool_call_update", toolCallId="c", rawOutput="whole")
            agent.update("tool_call_update", toolCallId="c", status="completed")
            agent.end(prompt, "end_turn")
        case "fails the turn":
            agent.refuse(prompt, -32603, "aborted")
        case "leaves":
            sys.exit(1)
        case "does nothing":
            agent.wait_for("nothing")


def fold(events: list[agentrt.Event]) -> tuple[str | None, set[str], set[str]]:
    """What a viewer knows from the events alone: the phase, open items, and open turns."""
    phase, items, turns = None, set[str](), set[str]()
    for event in events:
        match event:
            case agentrt.events.StateChanged(state=state):
                phase = state.phase
            case agentrt.TurnStarted(turn=turn):
                turns.add(turn)
            case agentrt.TurnEnded(turn=turn):
                turns.remove(turn)
            case agentrt.ItemOpened(item=item) if item.status not in OVER:
                items.add(item.id)
            case agentrt.ItemClosed(item=item):
                items.remove(item)
    return phase, items, turns


@pytest.mark.parametrize(
    "reaction",
    [
        "says nothing about the tool",
        "goes on with the tool",
        "fails the turn",
        "leaves",
        "does nothing",
    ],
)
async def test_a_stop_in_the_middle_of_a_tool_leaves_an_idle_session_that_works(
    reaction: str,
) -> None:
    async with (
        bad_session(misbehave=runs_a_tool, arg=reaction, limits=SHORT) as session,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(session.run, "misbehave")
        await until(session, lambda: any(i.tool for i in session.snapshot().items))
        session.cancel()
        # In the same step, whatever the agent does about it: nothing is open any more.
        assert [i.status for i in session.snapshot().items if i.tool] == ["cancelled"]
        assert session.state.phase == "cancelling"
        await until(session, lambda: session.state.turn is None)
        ended = session.snapshot()
        assert [(turn.outcome, turn.by) for turn in ended.turns] == [("cancelled", "user")]
        assert {item.status for item in ended.items} <= OVER
        # One who comes now sees the same, from the events as from the snapshot.
        phase, items, turns = fold(await told(session))
        assert (phase, items, turns) == (session.state.phase, set(), set())
        assert phase == ("dead" if reaction == "leaves" else "idle")
        await works(session)
        assert session.state.phase == "idle"


async def test_nothing_that_has_effects_is_begun_behind_a_stop(tmp_path: Path) -> None:
    """An agent may be slow to see the cancel; what was begun before, it may still end."""

    def new_session(agent: Agent, request: Message) -> None:
        agent.tools = Tools(request)
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        program = {"command": "sleep", "args": ["600"]}
        terminal = agent.request("terminal/create", program)["result"]
        agent.say("working")
        agent.wait_for("session/cancel")
        agent.mark(agent.tools.call("record"))
        file = {"path": os.path.join(os.getcwd(), "new"), "content": "x"}
        for method, params in [("fs/write_text_file", file), ("terminal/create", program)]:
            agent.mark(f"{method}: {agent.request(method, params)['error']['code']}")
        agent.mark(f"kill: {agent.request('terminal/kill', terminal)['result']}")
        agent.end(prompt, "cancelled")

    recorded = []

    @agentrt.tool
    def record() -> str:
        """Keep something."""
        recorded.append(True)
        return "recorded"

    seen: list[bytes] = []
    async with bad_session(
        new_session=new_session,
        misbehave=misbehave,
        tools=(record,),
        cwd=tmp_path,
        limits=PATIENT,
        on_stderr=seen.append,
    ) as session:
        async with session.prompt("misbehave") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
        assert (turn.result.outcome, turn.result.stop_reason) == ("cancelled", "cancelled")
        await works(session)
    assert recorded == []
    assert os.listdir(tmp_path) == []
    assert b"".join(seen).decode().splitlines() == [
        "record cannot run now: the turn was cancelled (-32800)",
        "fs/write_text_file: -32800",
        "terminal/create: -32800",
        "kill: {}",
    ]


async def test_an_agent_that_was_given_up_on_calls_no_tool_any_more() -> None:
    def new_session(agent: Agent, request: Message) -> None:
        agent.tools = Tools(request)
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark("working")
        while True:
            agent.receive()  # whatever it is

    def eof(agent: Agent) -> None:
        if any(message.get("method") == "session/cancel" for message in agent.heard):
            agent.mark(agent.tools.call("record"))
        sys.exit(0)

    recorded = []

    @agentrt.tool
    def record() -> str:
        """Keep something."""
        recorded.append(True)
        return "recorded"

    marks = Marks()
    async with bad_session(
        new_session=new_session,
        misbehave=misbehave,
        eof=eof,
        tools=(record,),
        limits=structs.replace(SHORT, stdin_close_grace_s=5),
        on_stderr=marks,
    ) as session:
        async with session.prompt("misbehave") as turn:
            await marks.wait("working")
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        await works(session)
        assert "record cannot run now: the turn was cancelled" in marks.seen
        assert recorded == []


async def test_prompts_that_wait_do_not_start_because_of_a_stop() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark("working")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")

    marks = Marks()
    async with (
        bad_session(misbehave=misbehave, limits=PATIENT, on_stderr=marks) as session,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(session.run, "misbehave")
        await marks.wait("working")
        for text in ("one", "two"):
            nursery.start_soon(session.run, text)
        await until(session, lambda: len(session.snapshot().queue) == 2)
        session.cancel()
        await until(session, lambda: session.state.phase == "idle")
        await trio.sleep(0.3)
        waiting = session.snapshot()
        assert (len(waiting.queue), waiting.paused) == (2, True)
        assert len(waiting.turns) == 1
        session.queue.resume()
        await until(session, lambda: len(session.snapshot().turns) == 3)
        await until(session, lambda: session.state.phase == "idle")
        assert [turn.outcome for turn in session.snapshot().turns[1:]] == ["completed"] * 2


async def test_a_prompt_that_waits_for_a_new_process_does_not_start_behind_a_stop(
    tmp_path: Path,
) -> None:
    def initialize(agent: Agent, request: Message) -> None:
        if os.path.exists(agent.arg):
            agent.mark("again")
            time.sleep(0.2)
        open(agent.arg, "w").close()
        agent.answer(request, {"protocolVersion": 1})

    def misbehave(agent: Agent, prompt: Message) -> None:
        sys.exit(1)

    marks = Marks()
    async with (
        bad_session(
            initialize=initialize, misbehave=misbehave, arg=str(tmp_path / "ran"), on_stderr=marks
        ) as session,
        trio.open_nursery() as nursery,
    ):
        await session.run("misbehave", check=False)
        nursery.start_soon(session.run, "again")
        await marks.wait("again")
        session.cancel()
        await until(session, lambda: session.state.phase == "idle")
        await trio.sleep(0.1)
        waiting = session.snapshot()
        assert (len(waiting.queue), waiting.paused, len(waiting.turns)) == (1, True, 1)
        session.queue.resume()
        await until(session, lambda: len(session.snapshot().turns) == 2)
