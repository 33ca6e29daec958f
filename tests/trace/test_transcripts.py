"""Each transcript of a real agent replays to the same log, in whatever order tasks run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import agentrt
from agentrt.lowlevel import Cursor
from agentrt.testing import Replay, ReplayMismatch, run_seeded
from agentrt.tracing import TraceRecord

from .transcripts import ALL, converted

TURNS = {
    "cancelled completed": (
        *("cancel_permission", "cancel_sleep", "interrupt_mcp", "interrupt_permission"),
        *("interrupt_sleep", "interrupt_stream"),
    ),
    "cancelled": (
        *("permission_never_answered", "background_interrupt"),
        *("cancel_at_once", "eof_permission_pending", "eof_stream"),
        *("mcp_after_eof", "sigint_sleep"),
    ),
    "completed completed": (
        *("background", "background_mcp_eof", "err_400", "err_429", "subagent_bg", "text"),
        "tool_deny_interrupt",
    ),
    "completed": ("approve_ignored", "ask_user", "mcp_tool", "tool_allow", "tool_deny"),
    "completed cancelled completed": ("replay_queue",),
    "agent_died": ("sigterm_sleep",),
}
"""How the turns of each story end."""
ENDINGS = {story: turns for turns, stories in TURNS.items() for story in stories}

TWICE = "the recorded host prompted while a turn ran, which agentrt does not"
PROMPTED_TWICE = {
    "codex-acp-zed-second_prompt": "the second one is never answered",
    "gemini-second_prompt": "the first one ends cancelled",
    "kimi-code-second_prompt": "the second one is refused: -32600",
    "mistral-vibe-second_prompt": "the second one is refused: -32603",
    "qwen-second_prompt": "the first one ends cancelled",
}
"""What agentrt never does, for each agent makes something else of it. What it did is played again
whole, and `Replay.check` tells of the prompt."""
OF_TWO_PROMPTS = {
    "codex-acp-zed": "completed",
    "gemini": "cancelled",
    "kimi-code": "completed",
    "mistral-vibe": "completed",
    "qwen": "cancelled completed",
}
"""How the turns of these end: what is said behind the first one is a turn that the agent began."""
SAYING_MORE = {
    # The recorded host left the open question without the answer that ACP wants of a cancel.
    "gemini-permission_never_answered": "the host sent the answer to request 0, which is not",
    # It waited for good; agentrt asks once more before it ends the process.
    "copilot-cancel_at_once": "the host sent $/cancel_request, which is not in the recording",
}
"""What agentrt says beyond what was said then: the rest is the same, and `Replay.check` tells."""


@agentrt.tool
async def record_result(summary: str) -> str:
    """Records."""
    return f"recorded: {summary}"


class Watched:
    """What a session has shown, and what went over its wire from its opening on."""

    def __init__(self) -> None:
        self.snapshot: agentrt.events.Snapshot | None = None
        self.wire: list[TraceRecord] = []


async def play(recorded: Replay, into: list[Any], watched: Watched | None = None) -> None:
    """Every event of a session in which all that was done then is done again."""
    tools = [record_result] if recorded.protocol == "claude" else []
    cursor: Cursor | None = None
    try:
        async with recorded.open_session(permissions=agentrt.ask, tools=tools) as session:
            cursor = session.log.cursor(0, lossless=True)
            if watched is None:
                await recorded.enact(session)
                return
            trace = session.trace()
            await recorded.enact(session)
            watched.snapshot = session.snapshot()
        watched.wire = [record async for record in trace]
    finally:
        while cursor is not None and (event := cursor.pop()) is not None:
            into.append(event)


def played(name: str, seed: int) -> tuple[bytes, list[str], str | None]:
    """The log in bytes, how its turns ended, and the departure."""
    events: list[Any] = []
    departed = None
    recorded = Replay(converted(name))
    try:
        run_seeded(play, recorded, events, seed=seed)
        recorded.check()
    except ReplayMismatch as error:
        departed = str(error)
    turns = [event.outcome for event in events if isinstance(event, agentrt.TurnEnded)]
    return msgspec.json.encode(events), turns, departed


def holds(name: str, seeds: int) -> None:
    first = played(name, 0)
    log, turns, departed = first
    if name in PROMPTED_TWICE | SAYING_MORE:
        assert departed is not None
        assert departed.startswith(SAYING_MORE.get(name, TWICE))
    else:
        assert departed is None
    agent, _, story = name.rpartition("-")
    two = story == "second_prompt"
    assert " ".join(turns) == (OF_TWO_PROMPTS[agent] if two else ENDINGS[story])
    assert len(log) > 1000
    for seed in range(1, seeds):
        assert played(name, seed) == first


@pytest.mark.parametrize("name", ALL)
def test_a_recording_of_a_real_agent_replays_to_the_same_log(name: str) -> None:
    holds(name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_recording_of_a_real_agent_replays_to_the_same_log_on_ten_schedules(name: str) -> None:
    holds(name, 10)


def made_of_two_prompts(name: str) -> str:
    """What a recorded agent did with the one that came while a turn ran."""
    prompts: list[Any] = []
    answers: dict[Any, dict[str, Any]] = {}
    for record in converted(name):
        if record.kind not in ("sent", "received"):
            continue
        message = msgspec.json.decode(record.data)
        if message.get("method") == "session/prompt":
            prompts.append(message["id"])
        elif record.kind == "received" and "method" not in message:
            answers[message["id"]] = message
    first, second = prompts
    if second not in answers:
        return "the second one is never answered"
    if "error" in answers[second]:
        return f"the second one is refused: {answers[second]['error']['code']}"
    return f"the first one ends {answers[first]['result']['stopReason']}"


def test_a_program_that_prompts_in_the_running_turn_departs_where_its_prompt_is_sent_behind() -> (
    None
):
    """The agent did what it did with both at once: nobody knows what it would do with one."""
    recorded = Replay(converted("kimi-code-second_prompt"))

    async def program() -> None:
        async with recorded.open_session(permissions=agentrt.allow_all) as session:
            session.submit("go [[sleep3]]")
            await session.run("second [[hello]]")

    with pytest.raises(ReplayMismatch, match=TWICE):
        run_seeded(program, seed=0)


@pytest.mark.parametrize("name", PROMPTED_TWICE)
def test_a_prompt_in_a_running_turn_is_something_else_to_each_agent(name: str) -> None:
    assert made_of_two_prompts(name) == PROMPTED_TWICE[name]


def test_there_are_as_many_as_were_recorded() -> None:
    assert len(ALL) == 74
