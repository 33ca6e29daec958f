"""A trace is a test: the recorded agent under the same drivers, in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import agentrt
from agentrt.testing import Replay, ReplayMismatch, replay
from agentrt.tracing import TraceRecord

# --- what a host may do otherwise


def line(t: float, kind: str, message: Any) -> TraceRecord:
    text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
    return TraceRecord(t=t, kind=kind, session="s", process=1, line=text)  # type: ignore[arg-type]


def update(text: str) -> dict[str, Any]:
    what = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"method": "session/update", "params": {"sessionId": "x", "update": what}}


def prompt(text: str) -> dict[str, Any]:
    blocks = [{"type": "text", "text": text}]
    return {"id": 7, "method": "session/prompt", "params": {"sessionId": "x", "prompt": blocks}}


OPENING = [
    line(0.0, "sent", {"id": "a", "method": "initialize", "params": {}}),
    line(0.1, "received", {"id": "a", "result": {"protocolVersion": 1}}),
    line(0.2, "sent", {"id": "b", "method": "session/new", "params": {"cwd": "/then"}}),
    line(0.3, "received", {"id": "b", "result": {"sessionId": "x"}}),
]
TURN = [
    line(1.0, "sent", prompt("hello")),
    line(2.0, "received", update("Hi")),
    line(3.0, "received", "no message"),
    line(64.0, "received", {"id": 7, "result": {"stopReason": "end_turn"}}),
]
QUESTION = {
    "toolCall": {"toolCallId": "c"},
    "options": [
        {"optionId": "y", "name": "y", "kind": "allow_once"},
        {"optionId": "n", "name": "n", "kind": "reject_once"},
    ],
}


async def test_what_was_said_is_said_again_as_late_as_it_was(autojump_clock: object) -> None:
    started = trio.current_time()
    agent = Replay(OPENING + TURN)
    async with agent.open_session() as session:
        assert (await session.run("hello")).text == "Hi"
    assert trio.current_time() - started >= 63
    agent.check()


async def test_the_ids_are_those_of_the_host_that_plays_now(autojump_clock: object) -> None:
    async with Replay(OPENING + TURN).open_session() as session:
        assert (await session.run("hello")).outcome == "completed"  # its own ids are 1, 2, 3


async def test_another_prompt_is_a_departure_that_names_the_record(autojump_clock: object) -> None:
    with pytest.raises(ReplayMismatch, match=r"session/prompt differs.*record 5") as caught:
        async with Replay(OPENING + TURN).open_session() as session:
            await session.run("good-bye")
    assert (caught.value.number, caught.value.record) == (5, TURN[0])


async def test_a_request_that_was_never_made_is_a_departure(autojump_clock: object) -> None:
    async def twice() -> None:
        async with Replay(OPENING + TURN).open_session() as session:
            await session.run("hello")
            await session.run("hello")

    with pytest.raises(ReplayMismatch, match="session/prompt, which is not in the recording"):
        await twice()


async def test_another_decision_is_a_departure(autojump_clock: object) -> None:
    ask = {"id": 0, "method": "session/request_permission", "params": QUESTION}
    params = {**QUESTION, "sessionId": "x"}
    chosen = {"outcome": {"outcome": "selected", "optionId": "y"}}
    records = [
        *OPENING,
        TURN[0],
        line(2.0, "received", {**ask, "params": params}),
        line(3.0, "sent", {"id": 0, "result": chosen}),
        TURN[-1],
    ]
    async with Replay(records).open_session(permissions=agentrt.allow_all) as session:
        assert (await session.run("hello")).outcome == "completed"
    with pytest.raises(ReplayMismatch, match="the answer to request 0 differs"):
        async with Replay(records).open_session(permissions=agentrt.deny_all) as session:
            await session.run("hello")


async def test_a_host_that_does_not_go_on_is_a_departure_after_a_while(
    autojump_clock: object,
) -> None:
    records = [*OPENING, *TURN[:2], line(2.5, "sent", {"method": "session/cancel", "params": {}})]
    with pytest.raises(ReplayMismatch, match="has not sent session/cancel for 60 s"):
        async with Replay(records).open_session() as session:
            await session.run("hello")


async def test_what_a_host_has_left_out_and_what_it_has_cancelled_is_found_by_check(
    autojump_clock: object,
) -> None:
    agent = Replay(OPENING + TURN)
    async with agent.open_session():
        pass
    with pytest.raises(ReplayMismatch, match="did not send session/prompt"):
        agent.check()
    agent = Replay(OPENING + TURN)
    async with agent.open_session() as session:
        with trio.move_on_after(1):
            await session.run("hello")
    with pytest.raises(ReplayMismatch, match="sent session/cancel"):
        agent.check()


async def test_a_death_is_died_again_and_a_restart_is_the_next_process(
    autojump_clock: object,
) -> None:
    death = TraceRecord(t=2.5, kind="exited", session="s", process=1, code=-9)
    again = [msgspec.structs.replace(record, process=2) for record in OPENING + TURN]
    agent = Replay([*OPENING, *TURN[:2], death, *again])
    async with agent.open_session() as session:
        assert (await session.run("hello", check=False)).outcome == "agent_died"
        assert (await session.run("hello")).outcome == "completed"
    agent.check()


async def test_what_was_redacted_is_not_compared(autojump_clock: object) -> None:
    said = msgspec.structs.replace(line(1.0, "sent", prompt("[redacted]")), redacted=True)
    async with Replay([*OPENING, said, *TURN[1:]]).open_session() as session:
        assert (await session.run("my password")).outcome == "completed"


@pytest.mark.slow
async def test_a_trace_of_a_real_process_replays_in_memory(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with agentrt.open_session("demo", cwd=tmp_path, trace=tmp_path / "t") as session:
            then = await session.run("hello")
    agent = replay(tmp_path / "t", speed=float("inf"))
    with trio.fail_after(60):
        async with agent.open_session() as session:
            now = await session.run("hello")
    agent.check()
    assert (agent.agent, now.text, now.outcome) == ("demo", then.text, then.outcome)


def test_a_replay_is_of_one_session(tmp_path: Path) -> None:
    header = TraceRecord(t=0, kind="trace", version=1)
    other = [msgspec.structs.replace(record, session="other") for record in OPENING]
    (tmp_path / "t").write_bytes(
        b"".join(msgspec.json.encode(each) + b"\n" for each in [header, *OPENING, *other])
    )
    with pytest.raises(ReplayMismatch, match="there are 2: s, other"):
        replay(tmp_path / "t")
    assert replay(tmp_path / "t", session="oth").protocol == "acp"


async def test_what_was_done_can_be_done_again_also_what_started_the_next_process(
    autojump_clock: object,
) -> None:
    death = TraceRecord(t=2.5, kind="exited", session="s", process=1, code=-9)
    again = [msgspec.structs.replace(record, process=2) for record in OPENING + TURN]
    agent = Replay([*OPENING, *TURN[:2], death, *again])
    async with agent.open_session(permissions=agentrt.ask) as session:
        await agent.enact(session)
    agent.check()
    assert [turn.outcome for turn in session.snapshot().turns] == ["agent_died", "completed"]


async def test_times_go_on_from_those_of_the_recording(autojump_clock: object) -> None:
    async with Replay(OPENING + TURN).open_session() as session, session.prompt("hello"):
        assert session.state.turn is not None
        assert session.state.turn.since < 2


async def test_saying_good_bye_is_left_to_the_session(autojump_clock: object) -> None:
    params = {"sessionId": "x"}
    close = line(65.0, "sent", {"id": 9, "method": "session/close", "params": params})
    able = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}
    opening = [OPENING[0], line(0.1, "received", {"id": "a", "result": able}), *OPENING[2:]]
    closed = line(65.1, "received", {"id": 9, "result": {}})
    agent = Replay([*opening, *TURN, close, closed])
    async with agent.open_session(permissions=agentrt.ask) as session:
        await agent.enact(session)
    agent.check()


async def test_an_agent_that_is_killed_has_nothing_more_to_be_done(autojump_clock: object) -> None:
    params = {"sessionId": "x"}
    cancel = line(2.5, "sent", {"method": "session/cancel", "params": params})
    agent = Replay([*OPENING, *TURN[:2], cancel, *TURN[2:], line(65.0, "sent", prompt("again"))])
    async with agent.open_session(permissions=agentrt.ask) as session:
        await agent.enact(session)
    assert [turn.outcome for turn in session.snapshot().turns] == ["cancelled"]
