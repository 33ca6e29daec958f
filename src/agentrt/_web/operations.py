"""What a command does, in whatever protocol it was said.

A command is a wish about a session: it is handed to the session synchronously and answered at once,
or, where the agent or a process has to be waited for, by a job of its own. What comes of it is told
by the session's events, to all viewers alike.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio

from .._errors import (
    AgentNotFound,
    AgentrtError,
    AgentStartError,
    Busy,
    LimitExceeded,
    LocalProtocolError,
    RequestError,
    SessionClosed,
    SessionNotFound,
)
from .._session.session import Session, host_of
from .._session.turn import Turn
from .._wire.jsonrpc import METHOD_NOT_FOUND
from . import commands as c
from .commands import Refused

if TYPE_CHECKING:
    from .hub import Client, Hub

logger = logging.getLogger(__name__)

Fields: TypeAlias = dict[str, Any]
"""What is told of a command that was carried out."""


def carry_out(
    hub: Hub, client: Client, command: c.Command, tell: Callable[[Fields | Refused], None]
) -> None:
    """Have a command done, and `tell` what came of it: at once, or when its job is over."""
    outcome: Fields | Refused
    try:
        make = _JOBS.get(type(command))
        if make is not None:
            client.start(make(hub, client, command), tell)
            return
        outcome = _ACTS[type(command)](hub, client, command)
    except Exception as error:
        outcome = as_refusal(error)
    tell(outcome)


# --- turns


def _prompt(hub: Hub, client: Client, command: c.Prompt) -> Fields:
    session = hub.session(command.session)
    log = hub.feed(command.session).log
    if command.when == "steer":
        try:
            session.steer(command.content)
        except LocalProtocolError as error:
            raise Refused("unsupported", str(error)) from error
        running = session.state.turn
        return {"turn": running.id if running is not None else None, "seq": log.seq}
    turn = session.submit(command.content, when=command.when)
    if turn.id:
        return {"turn": turn.id, "seq": log.seq}
    waiting = [entry.id for entry in session.queue]
    return {"queued": waiting.index(turn.entry) + 1, "entry": turn.entry, "seq": log.seq}


def _cancel(hub: Hub, client: Client, command: c.Cancel) -> Fields:
    session = hub.session(command.session)
    running = session.state.turn
    if command.turn is not None and (running is None or running.id != command.turn):
        if command.turn not in session.log.state.turns:
            raise Refused("unknown_turn", f"no turn {command.turn!r} in this session")
        return {"turn": command.turn}  # it is over already
    session.cancel()
    seq = hub.feed(command.session).log.seq
    return {"turn": running.id if running is not None else None, "seq": seq}


def stop(session: Session, turn: Turn) -> None:
    """A user's Stop of what was prompted, whether it runs or waits."""
    running = session.state.turn
    if running is not None and running.id == turn.id:
        session.cancel()
    else:
        turn.cancel()


def _permission(hub: Hub, client: Client, command: c.Permission) -> Fields:
    session = hub.session(command.session)
    if command.request not in session.permissions:
        if host_of(session).core.conversation.items.was_asked(command.request):
            raise Refused("already_resolved", f"the request {command.request!r} is closed")
        raise Refused("unknown_request", f"no request {command.request!r} in this session")
    if command.content is not None:
        session.fill(command.request, command.content)
    elif command.option is not None:
        session.answer(command.request, command.option, note=command.note)
    else:
        session.dismiss(command.request, command.note)
    return {}


def _tool_result(hub: Hub, client: Client, command: c.ToolResult) -> Fields:
    session = hub.session(command.session)
    if client.calls.finish(session.id, command.item, command.content, error=command.error):
        return {}
    item = session.log.state.items.get(command.item)
    if item is None or item.tool is None:
        raise Refused("unknown_request", f"no tool call {command.item!r} in this session")
    if item.tool.owner != "client":
        raise Refused("forbidden", f"this tool is the {item.tool.owner}'s to run")
    if item.status == "waiting":
        raise Refused("forbidden", "another client runs this tool")
    raise Refused("already_resolved", f"the call {command.item!r} is over")


def _queue(act: Callable[[Session, Any], None]) -> Callable[[Hub, Client, Any], Fields]:
    def perform(hub: Hub, client: Client, command: Any) -> Fields:
        session = hub.session(command.session)
        try:
            act(session, command)
        except LocalProtocolError as error:
            raise Refused("unknown_request", str(error)) from error
        return {}

    return perform


def _stop_all(hub: Hub, client: Client, command: c.StopAll) -> Fields:
    return {"cancelled": hub.runtime.cancel_all()}


# --- sessions


def _rename(hub: Hub, client: Client, command: c.RenameSession) -> Fields:
    hub.session(command.session).rename(command.title)
    return {}


Job: TypeAlias = Callable[[], Awaitable[Fields]]


def _new(hub: Hub, client: Client, command: c.NewSession) -> Job:
    cwd = hub.folders.resolve(command.cwd)

    async def job() -> Fields:
        session = await hub.runtime.create(
            command.agent,
            cwd=cwd,
            title=command.title,
            tools=client.tools,
            model=command.model,
            mode=command.mode,
        )
        return {"session": session.id}

    return job


def _load(hub: Hub, client: Client, command: c.LoadSession) -> Job:
    cwd = hub.folders.resolve(command.cwd)

    async def job() -> Fields:
        if command.session is not None:
            return {"session": hub.session(command.session).id}
        assert command.agent is not None
        assert command.agent_session is not None
        session = await hub.runtime.load(
            command.agent, command.agent_session, cwd=cwd, tools=client.tools
        )
        return {"session": session.id}

    return job


def _close(hub: Hub, client: Client, command: c.CloseSession) -> Job:
    async def job() -> Fields:
        await hub.runtime.close(command.session)
        return {}

    return job


def _files(hub: Hub, client: Client, command: c.FindFiles) -> Job:
    hub.session(command.session)
    [folder] = [info.cwd for info in hub.runtime.list() if info.session == command.session]

    async def job() -> Fields:
        files, complete = await hub.files.find(folder, command.query)
        return {"files": files, "complete": complete}

    return job


def _ask_agent(
    ask: Callable[[Session, Any], Awaitable[None]],
) -> Callable[[Hub, Client, Any], Job]:
    """A request to the agent, which has `limits.call` seconds to answer it."""

    def make(hub: Hub, client: Client, command: Any) -> Job:
        session = hub.session(command.session)

        async def job() -> Fields:
            with trio.move_on_after(hub.limits.call):
                await ask(session, command)
                return {}
            raise Refused("agent_failed", f"the agent did not answer in {hub.limits.call:g} s")

        return job

    return make


_ACTS: Final[dict[type[c.Command], Callable[[Hub, Client, Any], Fields]]] = {
    c.Prompt: _prompt,
    c.Cancel: _cancel,
    c.Permission: _permission,
    c.ToolResult: _tool_result,
    c.QueueRemove: _queue(lambda session, command: session.unqueue(command.entry)),
    c.QueueEdit: _queue(
        lambda session, command: session.edit_queued(command.entry, command.content)
    ),
    c.QueuePromote: _queue(lambda session, command: session.promote(command.entry)),
    c.QueueResume: _queue(lambda session, command: session.resume_queue()),
    c.RenameSession: _rename,
    c.StopAll: _stop_all,
}

_JOBS: Final[dict[type[c.Command], Callable[[Hub, Client, Any], Job]]] = {
    c.NewSession: _new,
    c.LoadSession: _load,
    c.CloseSession: _close,
    c.FindFiles: _files,
    c.SetMode: _ask_agent(lambda session, command: session.set_mode(command.mode)),
    c.SetModel: _ask_agent(lambda session, command: session.set_model(command.model)),
    c.SetOption: _ask_agent(
        lambda session, command: session.set_option(command.option, command.value)
    ),
    c.StopTask: _ask_agent(lambda session, command: session.stop_task(command.task)),
}


# --- refusals

_CODES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (Busy, "busy"),
    (LimitExceeded, "limit"),
    (SessionNotFound, "unknown_session"),
    (SessionClosed, "agent_failed"),
    (AgentNotFound, "agent_failed"),
    (AgentStartError, "agent_failed"),
    (LocalProtocolError, "bad_request"),
    (ValueError, "bad_request"),
    (AgentrtError, "agent_failed"),
)


def as_refusal(error: Exception) -> Refused:
    """What went wrong with a command, as its answer."""
    match error:
        case Refused():
            return error
        case RequestError(code=number, message=message, data=data):
            lacks = number == METHOD_NOT_FOUND
            return Refused("unsupported" if lacks else "agent_failed", message, data)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Refused(code, str(error))
    logger.error("a command failed", exc_info=error)
    return Refused("internal", "the server failed to carry this out")
