"""What a command does, in whatever protocol it was said.

A command is a wish about a session: it is handed to the session synchronously and answered at once,
or, where the agent or a process has to be waited for, by a job of its own. What comes of it is told
by the session's events, to all viewers alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio

from .._errors import LocalProtocolError
from .._model.content import JsonObject
from .._session.session import Session, host_of
from .._session.turn import Turn
from . import commands as c
from .answers import Fields, Refused, as_refusal
from .client import Client, Done, Fail, Job
from .hub import Hub


def carry_out(hub: Hub, client: Client, command: c.Command, done: Done, fail: Fail) -> None:
    """Have a command done, and what came of it told, at once or when its job is over: `done`, or
    `fail` with what went wrong, also in `done`."""
    try:
        make = _JOBS.get(type(command))
        if make is not None:
            client.start(make(hub, client, command), done, fail)
        else:
            done(_ACTS[type(command)](hub, client, command))
    except Exception as error:
        fail(as_refusal(error))


# --- turns


def _prompt(hub: Hub, client: Client, command: c.Prompt) -> Fields:
    session = hub.session(command.session)
    if command.when == "steer":
        try:
            session.steer(command.content)
        except LocalProtocolError as error:
            raise Refused("unsupported", str(error)) from error
        running = session.state.turn
        return {"turn": running.id if running is not None else None, "seq": session.log.seq}
    turn = session.submit(command.content, when=command.when)
    if turn.id:
        return {"turn": turn.id, "seq": session.log.seq}
    waiting = [entry.id for entry in session.queue]
    return {"queued": waiting.index(turn.entry) + 1, "entry": turn.entry, "seq": session.log.seq}


def _cancel(hub: Hub, client: Client, command: c.Cancel) -> Fields:
    session = hub.session(command.session)
    running = session.state.turn
    if command.turn is not None and (running is None or running.id != command.turn):
        if command.turn not in session.log.state.turns:
            raise Refused("unknown_turn", f"no turn {command.turn!r} in this session")
        return {"turn": command.turn}  # it is over already
    session.cancel()
    return {"turn": running.id if running is not None else None, "seq": session.log.seq}


def stop(session: Session, turn: Turn | str) -> None:
    """A user's Stop of a turn, by itself or its id: of the running one, or one that waits."""
    running = session.state.turn
    if running is not None and running.id == (turn if isinstance(turn, str) else turn.id):
        session.cancel()
    elif isinstance(turn, Turn):
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


def new_session(
    hub: Hub, client: Client, command: c.NewSession, mcp_servers: Sequence[JsonObject] = ()
) -> Job:
    cwd = hub.folders.resolve(command.cwd)

    async def job() -> Fields:
        session = await hub.runtime.create(
            command.agent,
            cwd=cwd,
            title=command.title,
            tools=client.tools,
            mcp_servers=mcp_servers,
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
    c.NewSession: new_session,
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
