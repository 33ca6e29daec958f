"""One program, any agent: Claude Code and ACP agents tell the same story of the same work."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import agentrt

from .lab import Lab, prepare
from .recipes import package_of
from .story import agent_of
from .versions import agents_root

pytestmark = pytest.mark.real_agent

PATIENCE = 180.0

TOLD_APART = (
    agentrt.ItemUpdated,
    agentrt.events.QueueChanged,
    agentrt.events.UsageChanged,
    agentrt.events.ModesChanged,
    agentrt.events.CommandsChanged,
    agentrt.events.TitleChanged,
    agentrt.Notice,
)
"""How often, and when, an agent mentions these is its own affair; and a prompt may wait a moment
for what the last turn has still to clear away."""


async def program(agent: agentrt.Agent, folder: Path, env: dict[str, str]) -> list[agentrt.Event]:
    """What a user of agentrt writes. Nothing in it knows which agent it is about."""

    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        return f"recorded: {summary}"

    # What an ACP agent still says of a cancelled turn must not be taken for the next one's.
    limits = agentrt.Limits(queued_end_silence_s=1)
    opening = agentrt.open_session(
        agent,
        cwd=folder,
        env=env,
        tools=[record_result],
        limits=limits,
        trust="yes",  # Gemini offers no tools of the program elsewhere
    )
    async with opening as session:
        told = session.subscribe(after=0)
        await session.run("Please [[text]]")
        for option in ("allow_once", "reject_once"):
            async with session.prompt("Please [[shell]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.answer(event.request, option)
        async with session.prompt("Please [[slow]]") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
        async with session.prompt("Please [[record]]") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.answer(event.request, "allow_once")
    return [event async for event in told]


def story(events: list[agentrt.Event]) -> list[str]:
    """The kinds of events in their order; pieces of one text are one."""
    types = {e.item.id: e.item.type for e in events if isinstance(e, agentrt.ItemOpened)}
    asked = [e for e in events if isinstance(e, agentrt.PermissionOpened)]
    options = {(e.request, option.id): option.kind for e in asked for option in e.options}
    kinds: list[str] = []
    for event in events:
        name = type(event).__name__
        match event:
            case agentrt.ItemOpened(item=item):
                kind = f"{item.type} opened"
            case agentrt.ItemClosed(item=key, status=status):
                kind = f"{types[key]} {status}"
            case agentrt.events.PermissionClosed(request=key, option=str(option)):
                kind = f"permission {options[key, option]}"
            case agentrt.events.StateChanged(state=state):
                kind = f"state {state.phase}"
            case agentrt.TurnEnded(outcome=outcome, by=by):
                kind = f"turn {outcome} by {by}"
            case _:
                kind = name
        if not isinstance(event, TOLD_APART) and kinds[-1:] != [kind]:
            kinds.append(kind)
    return kinds


@pytest.mark.parametrize("agent", ["claude-agent-acp", "gemini"])
async def test_the_same_program_gives_the_same_result(lab: Lab, tmp_path: Path) -> None:
    claude = package_of("claude")
    if not claude.installed(agents_root()):
        pytest.skip(f"claude is not installed: {claude.how_to_install}")
    (tmp_path / "claude").mkdir()
    other = prepare("claude", lab.model, agents_root(), tmp_path / "claude")
    with trio.fail_after(PATIENCE):
        of_acp, of_claude = [
            story(await program(agent_of(each), each.work, each.env)) for each in (lab, other)
        ]
    assert of_claude == of_acp
    assert [kind for kind in of_claude if kind.startswith("turn")] == [
        "turn completed by None",
        "turn completed by None",
        "turn completed by None",
        "turn cancelled by caller",
        "turn completed by None",
    ]
