"""What a session told about itself, and the rules that every such story keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psutil
import trio
from msgspec import structs

import agentrt
from agentrt import Agent, Event, Policy, Session, Tool
from agentrt.events import Item

from .lab import Lab
from .recipes import CLAUDES

_E = TypeVar("_E")

TERMINAL = {"completed", "failed", "denied", "cancelled", "orphaned"}

GONE = 30.0
"""Seconds that a process may take to leave the process table after the session has ended it: some
milliseconds, unless the machine is busy."""

GATE = "until test -e go; do sleep 0.05; done"
"""A command that ends when the test lets it (`open_gate`)."""


@dataclass
class Story:
    """All events of one session, in order."""

    events: list[Event] = field(default_factory=list)

    def all(self, kind: type[_E]) -> list[_E]:
        return [event for event in self.events if isinstance(event, kind)]

    def tools(self) -> list[tuple[Item, str]]:
        """The tool calls, as they were opened, each with the status it was closed with."""
        closed = {event.item: event.status for event in self.all(agentrt.ItemClosed)}
        opened = [event.item for event in self.all(agentrt.ItemOpened)]
        return [(item, closed.get(item.id, "open")) for item in opened if item.type == "tool"]

    def notices(self, code: str) -> list[agentrt.Notice]:
        return [notice for notice in self.all(agentrt.Notice) if notice.code == code]

    def outline(self) -> list[tuple[object, ...]]:
        """What the log tells, without what differs from run to run: ids, times, the pieces of a
        text, the text of a turn that was cut off, and the notices about the surroundings."""
        told: list[tuple[object, ...]] = []
        types: dict[str, str] = {}
        text = ""
        for event in self.events:
            match event:
                case agentrt.TurnStarted():
                    text = ""
                    told.append(("turn started",))
                case agentrt.TextDelta(text=piece):
                    text += piece
                case agentrt.TurnEnded(outcome=outcome):
                    answer = text if outcome == "completed" else ""
                    told.append(("turn ended", outcome, event.stop_reason, event.by, answer))
                case agentrt.ItemOpened(item=item):
                    types[item.id] = item.type
                    if item.tool is not None:
                        told.append(("call", item.tool.owner))
                case agentrt.ItemClosed(item=key, status=status):
                    if types[key] == "tool":
                        told.append(("call ended", status))
                case agentrt.PermissionOpened():
                    told.append(("asked", [option.kind for option in event.options]))
                case agentrt.events.PermissionClosed():
                    told.append(("answered", event.outcome, event.by))
                case agentrt.Notice(code=code, level=level) if level != "info":
                    if not code.startswith("sandbox"):
                        told.append(("notice", code))
                case _:
                    pass
        return told

    def check(self) -> None:
        """One end per turn, with nothing of it open; nothing opened twice or closed twice."""
        mistakes = list(self._mistakes())
        assert not mistakes, "\n".join(mistakes)

    def _mistakes(self) -> Iterator[str]:
        running: str | None = None
        over: set[str] = set()
        items: dict[str, str | None] = {}
        closed: dict[str, str | None] = {}
        questions: dict[str, bool] = {}  # and whether no turn has to do with it
        for event in self.events:
            match event:
                case agentrt.TurnStarted(turn=turn):
                    if running is not None or turn in over:
                        yield f"{turn} started while {running} ran"
                    running = turn
                case agentrt.TurnEnded(turn=turn):
                    if turn != running:
                        yield f"{turn} ended while {running} ran"
                    running = None
                    over.add(turn)
                    yield from (
                        f"{item} was open at the end of {turn}"
                        for item, owner in items.items()
                        if owner == turn
                    )
                    yield from (
                        f"{key} was open at the end of {turn}"
                        for key, background in questions.items()
                        if not background
                    )
                case agentrt.ItemOpened(item=item):
                    if item.id in items or item.id in closed:
                        yield f"{item.id} was opened twice"
                    if item.turn in over:
                        yield f"{item.id} was opened in {item.turn}, which was over"
                    whole = item.status in TERMINAL  # such as the prompt itself
                    (closed if whole else items)[item.id] = item.turn
                case agentrt.events.ItemDelta(item=key):
                    if key not in items:
                        yield f"{key} grew while it was not open"
                case agentrt.ItemUpdated(item=key, patch=patch):
                    # A tool call that was denied may still learn what its agent made of that.
                    if "turn" in patch and key in items:  # work moved to the background
                        items[key] = patch["turn"]
                    elif key not in items and (closed.get(key) != running or "status" in patch):
                        yield f"{key} changed while it was not open"
                case agentrt.ItemClosed(item=key):
                    if key not in items:
                        yield f"{key} was closed while it was not open"
                    closed[key] = items.pop(key, None)
                case agentrt.PermissionOpened(request=key, background=background):
                    questions[key] = background
                case agentrt.events.PermissionClosed(request=key):
                    if questions.pop(key, None) is None:
                        yield f"{key} was closed while it was not open"
                case _:
                    pass
        if running is not None:
            yield f"{running} never ended"


def agent_of(lab: Lab) -> Agent:
    """The catalogue's agent of that name, with its quirks, as the lab starts it; else a new one."""
    name = "claude" if lab.agent in CLAUDES else lab.agent
    for found in agentrt.find_agents():
        if found.agent.name == name:
            return structs.replace(
                found.agent,
                command=lab.argv,
                installed_as=None,
                acp_version=lab.acp_version,
            )
    return agentrt.agents.acp(lab.argv, name=lab.agent, version=lab.acp_version)


@asynccontextmanager
async def session_with(
    lab: Lab,
    *,
    permissions: Policy | None = None,
    tools: Sequence[Tool] = (),
    **more: Any,
) -> AsyncIterator[tuple[Session, Story]]:
    """A session with the lab's agent, opened with `more`, and its story, which is complete and
    checked after the block. The session is closed then, and none of its processes is left. The
    lab's folder is trusted, unless `more` says something else."""
    story = Story()
    lab.stories.append(story)
    opening = agentrt.open_session(
        agent_of(lab),
        cwd=lab.work,
        env=lab.env,
        permissions=permissions,
        tools=tools,
        **{"trust": "yes", "sandbox": lab.sandbox, **more},
    )
    async with opening as session:
        told = session.subscribe(after=0)
        yield session, story
    story.events += [event async for event in told]
    story.check()
    _, alive = psutil.wait_procs(lab.processes(), timeout=GONE)
    assert not alive, alive


def running(lab: Lab, command: str) -> list[psutil.Process]:
    """The lab's living processes whose command line is *command*."""
    return [process for process in lab.processes() if _command(process) == command]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def open_gate(lab: Lab) -> None:
    (lab.work / "go").touch()


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Look now and then until *holds* is true."""
    with trio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - what another process does sends no event
            await trio.sleep(0.05)
