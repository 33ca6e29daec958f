"""The sandbox of a session: its settings, and its questions in the session's log.

`session_wall` opens the sandbox before the agent is started. `serve_access` then connects it with
the session, until the session's end. If a program in the sandbox needs access that it does not
have, the sandbox adds an `AccessRequest` to its desk. The request becomes a permission request of
the session, which a person or a policy answers like those of the agent (except `allow_all`); the
program waits for the answer.

Every change is reported by a notice. It contains the whole state of the sandbox, so viewers do not
need the earlier ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, Final

import msgspec
import trio
from msgspec import structs

from ..agents import Agent
from ..errors import LocalProtocolError
from ..model.content import JsonObject, Text, ToolText
from ..model.driver import DecisionAnswer, DecisionRequested, Opening
from ..model.events import AnswerOrigin, Event, Item, ItemClosed, Notice, PermissionOption
from ..model.turn import TurnMachine
from ..permissions.policies import Policy
from ..permissions.rules import PermissionRule
from ..permissions.standing import Standing
from ..sandbox.access import (
    WRITE,
    Access,
    AccessRefused,
    HostAccess,
    PathAccess,
    ProgramAccess,
    Scope,
)
from ..sandbox.desk import AccessRequest
from ..sandbox.hints import Refusal, find_refusals
from ..sandbox.hosts import HostRefused, split_authority
from ..sandbox.landlock import MISSING
from ..sandbox.policy import Sandbox, narrowed
from ..sandbox.wall import Wall, open_wall
from ..session.host import SessionHost
from ..tools.tools import Tool, tool

ONCE: Final = "once"
SESSION: Final = "session"
REJECT: Final = "reject"


def _options(access: Access) -> list[PermissionOption]:
    """Return the answers to choose from. Access to a path once lasts until the turn has ended."""
    once = "Allow for this turn" if isinstance(access, PathAccess) else "Allow once"
    session = "Allow for this session"
    if isinstance(access, ProgramAccess):
        session = f"Allow {access.name} with any arguments for this session"
    return [
        PermissionOption(ONCE, once, "allow_once"),
        PermissionOption(SESSION, session, "allow_always"),
        PermissionOption(REJECT, "Reject", "reject_once"),
    ]


MAX_REASON_CHARS: Final = 500
MAX_SHOWN_HINTS: Final = 100
"""Number of notices about refusals in one start of a session."""
MAX_WAITING_BATCHES: Final = 100
"""Batches of events whose calls are not looked at yet; those of further ones are not."""


def stored_sandbox(fields: Mapping[str, Any]) -> Sandbox:
    """Return the sandbox with these stored fields."""
    return msgspec.convert(fields, Sandbox)


def session_wall(
    agent: Agent, opening: Opening, given: Sandbox | None, policy: Policy | None
) -> tuple[Opening, AbstractAsyncContextManager[Wall]]:
    """Return the opening of a session with a sandbox, and the block of its wall.

    A sandbox that the opening has already, because it was stored, is narrowed by the given one.
    Raises `LocalProtocolError` for an agent that does not run on this machine.
    """
    if agent.connect is not None:
        raise LocalProtocolError(
            f"{agent.name} does not run on this machine, so no sandbox can be put around it"
        )
    stored = None if opening.sandbox is None else stored_sandbox(opening.sandbox)
    sandbox = narrowed(stored, given)
    assert sandbox is not None
    rules = [PermissionRule(text, denies=True) for text in Standing(policy, agent).deny_rules]
    programs = [name for rule in rules if (name := rule.denied_program) is not None]
    wall = open_wall(
        sandbox,
        agent.name,
        cwd=opening.cwd,
        roots=opening.roots,
        programs=programs,
        widen=not opening.tenant,  # the files of the machine are not the tenant's to give
    )
    fields = {name: msgspec.to_builtins(value) for name, value in structs.asdict(sandbox).items()}
    return structs.replace(opening, sandbox=fields), wall


def access_tool(wall: Wall) -> Tool:
    """Return the tool by which the model asks for access outside of its sandbox."""

    async def request_access(
        path: str = "", write: bool = False, host: str = "", why: str = ""
    ) -> str:
        """Ask the user for access to a file, a folder or a host outside of your sandbox.

        Call it when a command fails because a file is missing or read-only in your sandbox, or a
        host is not allowed. Give an absolute path, with write=true to change files there, or a host
        as NAME:PORT; and say why you need it. Do not repeat a request that was refused.
        """
        try:
            if path:
                place = await wall.admit(path, writing=write, reason=why)
                return f"{place} can be {'written' if write else 'read'} now"
            if not host:
                return "nothing was requested: give a path or a host"
            name, port = split_authority(host, 443)
            await wall.gateway.request(name, port, why)
        except (AccessRefused, HostRefused) as error:
            return f"refused: {error}"
        return f"{name}:{port} can be reached now"

    return tool(request_access)


async def serve_access(host: SessionHost, wall: Wall) -> None:
    """Show the questions of the sandbox in the session until cancelled."""
    sandbox = wall.policy
    shown = sandbox.network if isinstance(sandbox.network, str) else ", ".join(sandbox.network)
    message = f"the agent runs in a sandbox ({wall.status.tier}); network: {shown}"
    _show(host, wall, "sandboxed", message)
    if wall.tier == "landlock":
        host.core.add_notice(Notice("warning", "sandbox_weaker", MISSING))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show_revoked, host, wall)
        nursery.start_soon(_show_hints, host, wall)
        async for request in wall.desk.questions:
            nursery.start_soon(_ask, host, wall, request)


async def _show_hints(host: SessionHost, wall: Wall) -> None:
    """Show a notice after a call in whose output the sandbox refused something, once for each."""
    log, known = host.log, set[Refusal]()
    send, batches = trio.open_memory_channel[list[Item]](MAX_WAITING_BATCHES)

    def observe(events: list[Event], _size: int) -> None:
        """Pass on the calls that ended. Called for each batch of events, so it must not block.

        If too many batches are waiting, their hints are lost; they only explain a refusal.
        """
        closed = [log.state.item(event.item) for event in events if type(event) is ItemClosed]
        calls = [item for item in closed if item is not None and item.tool is not None]
        if calls:
            with suppress(trio.WouldBlock, trio.BrokenResourceError):
                send.send_nowait(calls)

    log.observe(observe)
    async with batches:
        async for calls in batches:
            for item in calls:
                _hint(host, wall, item, known)


def _hint(host: SessionHost, wall: Wall, item: Item, known: set[Refusal]) -> None:
    """Show the refusals in the output of a call that are not known yet."""
    for refusal in find_refusals(_output(item), wall.cwd):
        if refusal not in known and len(known) < MAX_SHOWN_HINTS:
            known.add(refusal)
            data = {"item": item.id, "tool": refusal.tool, "target": refusal.target}
            for_good = refusal.tool == WRITE and wall.protects_for_good(refusal.target)
            message = refusal.hint(for_good=for_good)
            host.core.add_notice(Notice("warning", "sandbox_refused", message, data))


def _output(item: Item) -> str:
    """Return the text that a call has returned."""
    tool = item.tool
    assert tool is not None
    texts = [item.text]
    texts += [
        each.content.text
        for each in tool.content
        if isinstance(each, ToolText) and isinstance(each.content, Text)
    ]
    if isinstance(tool.output, str):
        texts.append(tool.output)
    return "\n".join(texts)


async def _show_revoked(host: SessionHost, wall: Wall) -> None:
    """Report each permission that is taken back, until cancelled."""
    async for target in wall.desk.revoked:
        _show_narrowed(host, wall, target)


def _show_narrowed(host: SessionHost, wall: Wall, target: str) -> None:
    """Report that access which was given before is not allowed any longer."""
    _show(host, wall, "sandbox_narrowed", f"{target} is no longer allowed")


async def _ask(host: SessionHost, wall: Wall, request: AccessRequest) -> None:
    """Ask, wait for the answer as long as a program waits, and put it into effect."""
    core = host.core
    access = request.access
    key = core.conversation.new_id("n")
    given = access.input
    if request.reason:
        given["reason"] = request.reason[:MAX_REASON_CHARS]
    turn = core.turn
    question = DecisionRequested(
        key=key,
        kind="permission",
        title=_title(access),
        options=_options(access),
        name=access.tool,
        tool_kind=_TOOL_KINDS[access.tool],
        input=given,
        detail={"tool": access.tool, "input": given},
        raw=access,
        background=turn is None or turn.cancelling,
        subject=access.tool,
    )
    core.questions.ask_own(question, partial(_answered, wall, request))
    await request.answered.wait()
    core.questions.expired(key)  # if the program did not wait any longer
    if isinstance(access, PathAccess) and request.scope != "no":
        await _widen(host, wall, request, access, turn)
    elif request.scope == "session":
        _show(host, wall, "sandbox_widened", f"{access.target} is allowed for this session")


async def _widen(
    host: SessionHost,
    wall: Wall,
    request: AccessRequest,
    access: PathAccess,
    turn: TurnMachine | None,
) -> None:
    """Give access to a path: for the session, or until the turn has ended."""
    lasting = request.scope == "session"
    try:
        await wall.widen(access, lasting=lasting)
    except AccessRefused as error:
        request.problem = str(error)
        host.core.add_notice(Notice("warning", "sandbox_not_changed", str(error)))
        return
    finally:
        request.applied.set()
    what = "written" if access.writing else "read"
    until = "this session" if lasting else "this turn"
    _show(host, wall, "sandbox_widened", f"{access.path} can be {what} in {until}")
    if not lasting:
        await _turn_ended(host, turn)
        try:
            await wall.narrow(access)
        except AccessRefused as error:
            host.core.add_notice(Notice("warning", "sandbox_not_changed", str(error)))
        else:
            _show_narrowed(host, wall, access.path)


async def _turn_ended(host: SessionHost, turn: TurnMachine | None) -> None:
    """Wait until a turn has ended; None stands for the next one that ends."""
    over = trio.Event()

    def ended(each: TurnMachine) -> None:
        """Note the end of the turn; called by the host for each turn that ends."""
        if turn is None or each is turn:
            over.set()

    if turn is not None and turn.ended is not None:
        await trio.lowlevel.checkpoint()
        return
    host.turn_end_callbacks += (ended,)
    try:
        await over.wait()
    finally:
        host.turn_end_callbacks = tuple(
            each for each in host.turn_end_callbacks if each is not ended
        )


_TOOL_KINDS: Final = {"Network": "fetch", "Read": "read", "Write": "edit", "Program": "execute"}


def _title(access: Access) -> str:
    """Return the question for people, in a few words."""
    match access:
        case HostAccess():
            return f"Connect to {access.target}"
        case PathAccess(path, writing):
            return f"{'Write to' if writing else 'Read'} {path}, outside the sandbox"
        case _:
            return f"Run {shlex.join(access.argv)}"


def _show(host: SessionHost, wall: Wall, code: str, message: str) -> None:
    """Show a change of the sandbox, with all that viewers need to know about it."""
    status = wall.status
    data: JsonObject = {
        "tier": status.tier,
        "network": msgspec.to_builtins(wall.policy.network),
        "summary": status.summary,
        "granted": msgspec.to_builtins(list(status.granted)),
    }
    host.core.add_notice(Notice("info", code, message, data))


def _answered(
    wall: Wall, request: AccessRequest, answer: DecisionAnswer, by: str, origin: AnswerOrigin
) -> None:
    """Put an answer into effect.

    A permission for a host or a program is recorded here. One for a path is recorded later, after
    the path has become visible in the sandbox (`_widen`).
    """
    if answer.option == SESSION and not isinstance(request.access, PathAccess):
        wall.desk.grant(request.access)
    scope: Scope = (
        "session" if answer.option == SESSION else "once" if answer.option == ONCE else "no"
    )
    request.answer(scope)
