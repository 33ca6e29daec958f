"""What a command does, in whatever protocol it was said.

A command is a wish about a session: it is handed to the session synchronously and answered at once,
or, where the agent or a process has to be waited for, by a job of its own. What comes of it is
reported by the session's events, to all viewers alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

import trio
from msgspec import UNSET, UnsetType

from .._errors import (
    LimitExceeded,
    LocalProtocolError,
    SessionClosed,
    SessionElsewhere,
    SessionMoved,
    StoreError,
    StoreUnavailable,
)
from .._journal.port import AGAIN, Port
from .._journal.store import Store
from .._model.content import JsonObject
from .._session.origin import answering
from .._session.session import Session, host_of
from .._session.turn import Turn
from . import commands as c
from .answers import Fields, Refused, as_refusal
from .client import Client, Done, Fail, Job
from .hub import Hub
from .routing import is_elsewhere, send_on, send_to_all

ENDS: Final = (c.Cancel, c.Permission, c.StopAll, c.StopTask, c.CloseSession)
"""Commands that may end what runs: they are carried out and answered whatever the store does."""

KNOWN: Final = 0.25
"""Seconds for which a cancel waits for what is known of it."""

UNOPENED: Final = (c.Cancel, c.CloseSession, c.DeleteSession, c.ForkSession)
"""Commands to a session that is only stored for which it is not opened."""


HOLDS: Final = (c.Prompt, c.Retell, c.InQueue, c.RenameSession)
"""Commands that are over ahead of what the same client says to the session behind them, where more
than one server may carry them out. None of them waits for the agent."""

ORDER: Final = 60.0
"""Seconds for which a command waits at most for those ahead of it."""

REPLIES: Final = (c.Permission, c.ToolResult)
"""Commands that wait for no other one: something waits for them."""


def carry_out(hub: Hub, client: Client, command: c.Command, done: Done, fail: Fail) -> None:
    """Have a command done, and what came of it said, at once or when its job is over: `done`, or
    `fail` with what went wrong, also in `done`."""
    store = hub.runtime.store
    try:
        crowded = isinstance(command, ENDS) and not client.has_room
        if store is not None and store.port is not None and is_elsewhere(hub, command):
            if not isinstance(command, ENDS):
                client.check_room()
            job = partial(_wherever, hub, store, store.port, client, command)
            client.start(in_order(client, command, job), done, fail, always=True)
            return
        if store is None or crowded or _is_unkept(hub, command):
            outcome = _act(hub, client, command)
        else:
            client.check_room()
            outcome = _kept(hub, store, client, command)
            if store.port is not None:
                job = partial(_or_elsewhere, hub, store, store.port, client, command, outcome)
                outcome = in_order(client, command, job, KNOWN)
        if isinstance(outcome, dict):
            done(outcome)
        else:
            client.start(outcome, done, fail)
    except Exception as error:
        fail(as_refusal(error))


def in_order(client: Client, command: c.Command, job: Job, patience: float = ORDER) -> Job:
    """See to it that what a client says to a session is done in the order in which it was said, but
    for what takes too long: two servers may wait for each other. An end of what runs waits for no
    longer than its `patience`."""
    named = isinstance(command, c.Cancel) and command.turn is not None
    if not isinstance(command, c.ForSession) or isinstance(command, REPLIES) or named:
        return job
    return client.in_order(
        command.session,
        command.id,
        job,
        holds=isinstance(command, HOLDS),
        patience=patience if isinstance(command, ENDS) else ORDER,
    )


async def _or_elsewhere(
    hub: Hub, store: Store, port: Port, client: Client, command: c.Command, job: Job
) -> Fields:
    """Carry out a command here, unless its session has left this server before that was begun."""
    doubtful = False
    try:
        return await job()
    except SessionMoved:
        doubtful = True
    except (LimitExceeded, SessionClosed):
        if not is_elsewhere(hub, command):
            raise
    return await _wherever(hub, store, port, client, command, doubtful=doubtful)


async def _wherever(
    hub: Hub,
    store: Store,
    port: Port,
    client: Client,
    command: c.Command,
    *,
    doubtful: bool = False,
) -> Fields:
    """Carry out a command to a session that is not open here, by whoever has it or opens it.
    `doubtful`: what comes of it may be stored already, with its answer, which is found then."""
    if isinstance(command, c.StopAll):
        here = hub.runtime.cancel_all()
        return {"cancelled": here + await send_to_all(hub, port, client, command)}
    while True:
        try:
            if (fields := await send_on(hub, port, client, command)) is not None:
                return fields
        except StoreError:
            if not doubtful:
                raise  # and nobody will carry it out
            await trio.sleep(AGAIN)
            continue
        try:
            return await in_hand(hub, store, client, command)
        except SessionElsewhere as error:
            if error.node is None:
                raise  # of another home
        except SessionMoved:
            doubtful = True
        except StoreError:
            if not doubtful:
                raise
        except LimitExceeded:
            if hub.runtime.runs_here() or not is_elsewhere(hub, command):
                raise
        except SessionClosed:
            if not is_elsewhere(hub, command):
                raise
        await trio.sleep(AGAIN)  # somebody else was first, or this server drains


async def in_hand(hub: Hub, store: Store, client: Client, command: c.Command) -> Fields:
    """Carry out a command that is this server's to carry out, and is not refused if it was carried
    out by another one before."""
    try:
        if isinstance(command, c.ForSession):
            await hub.runtime.find(command.session)
        return await _kept(hub, store, client, command)()
    except (SessionElsewhere, SessionMoved):
        raise
    except StoreError as error:
        failure = error
    known: Fields | None = None
    with suppress(StoreError):  # what reads may reach the store where what writes does not
        known = await client.answered_elsewhere(store, command)
    if known is None:
        raise failure
    return known


def _is_unkept(hub: Hub, command: c.Command) -> bool:
    """Whether nothing is stored that comes of it: it only looks, or its session is a program's own
    that is not stored."""
    if not isinstance(command, c.ForSession) or isinstance(command, c.FindFiles):
        return isinstance(command, c.FindFiles)
    if hub.runtime.stored(command.session) is not None:
        return False
    return host_of(hub.session(command.session)).keeper is None


def _act(hub: Hub, client: Client, command: c.Command) -> Fields | Job:
    """What came of a command, or what is still to be waited for. Raises whatever went wrong."""
    match command:
        case c.ForSession(session=id):
            if hub.runtime.stored(id) is not None:
                return _in_stored(hub, client, command)
            return _in_session(hub, client, hub.session(id), command)
        case c.NewSession():
            return new_session(hub, client, command)
        case c.LoadSession():
            return _load(hub, client, command)
        case c.StopAll():
            return {"cancelled": hub.runtime.cancel_all()}
    raise TypeError(f"{command} is not for here")


def _kept(hub: Hub, store: Store, client: Client, command: c.Command) -> Job:
    """As `_act`. The answer is stored in one flush with the events that come of the command at
    once, or behind those that take time, and given when it is: so no other server carries the
    command out again, and what was answered stays true."""
    if store.membership is not None:
        if isinstance(command, c.Cancel) and command.turn is None and hub.is_open(command.session):
            return partial(_cancelled_once, hub, store, client, command)
        if not isinstance(command, ENDS):
            return partial(_kept_once, hub, store, client, command)
    return _kept_here(hub, store, client, command)


async def _kept_once(hub: Hub, store: Store, client: Client, command: c.Command) -> Fields:
    """Where others share the store, one of them may have carried it out already. That is asked when
    the session is this process's: from then on no other one can."""
    if isinstance(command, c.ForSession) and not isinstance(command, UNOPENED):
        if hub.runtime.stored(command.session) is not None:
            await hub.reopen(client, command.session)
    known = await client.answered_elsewhere(store, command)
    return await _kept_here(hub, store, client, command)() if known is None else known


async def _cancelled_once(hub: Hub, store: Store, client: Client, command: c.Cancel) -> Fields:
    """A cancel of whatever runs, which may have been carried out elsewhere: then it is not this
    turn that was meant. It does not wait for a store that does not answer."""
    before = hub.session(command.session).state.turn
    if before is not None and store.status.state == "ok":
        with trio.move_on_after(KNOWN):
            if (known := await client.answered_elsewhere(store, command)) is not None:
                return known
        now = hub.session(command.session).state.turn
        if now is None or now.id != before.id:
            return {"turn": before.id}
    return await _kept_here(hub, store, client, command)()


def _kept_here(hub: Hub, store: Store, client: Client, command: c.Command) -> Job:
    if (begun := client.begun(command)) is not None:
        return begun
    if isinstance(command, c.ForSession):
        if hub.runtime.stored(command.session) is None:
            return _kept_with_events(hub, store, client, command)
        if not isinstance(command, UNOPENED):

            async def job() -> Fields:
                await hub.reopen(client, command.session)
                return await _kept_with_events(hub, store, client, command)()

            return job
    return partial(_kept_behind, store, client, command, _act(hub, client, command))


def _kept_with_events(hub: Hub, store: Store, client: Client, command: c.ForSession) -> Job:
    session = hub.session(command.session)
    host = host_of(session)
    keeper = host.keeper
    assert keeper is not None  # the runtime has a store
    with host.core:
        outcome = _act(hub, client, command)
        if isinstance(outcome, dict):
            if "seq" in outcome:
                outcome["seq"] = host.log.seq
            if (answer := client.answer_to(command, outcome)) is not None:
                keeper.answers.append(answer)
    if not isinstance(outcome, dict) or keeper.answers:
        keeper.answers.clear()  # no event came of it that it could go with
        return partial(_kept_behind, store, client, command, outcome)
    fields, seq = outcome, host.log.seq

    async def job() -> Fields:
        if store.membership is None or isinstance(command, ENDS):
            await keeper.wait_until_kept(seq)
        else:  # what may be stored may be carried out by another one, and must not be refused
            await keeper.wait_until_known(seq)
        if session.log.seq < seq and not isinstance(command, ENDS):
            keeper.check()  # says why
        return fields

    return client.once(command, job)


async def _kept_behind(
    store: Store, client: Client, command: c.Command, outcome: Fields | Job
) -> Fields:
    fields = outcome if isinstance(outcome, dict) else await outcome()

    async def job() -> Fields:
        try:
            await store.keep_answer(client.answer_to(command, fields))
        except StoreUnavailable:
            if not isinstance(command, ENDS):
                raise
        return fields

    return await client.once(command, job)()


def _in_stored(hub: Hub, client: Client, command: c.ForSession) -> Fields | Job:
    """As `_act`, for a session that is not open. What needs it open opens it."""
    match command:
        case c.Cancel(turn=turn):
            return {"turn": turn}  # nothing runs
        case c.CloseSession():
            return {}
        case c.DeleteSession(session=id):
            return partial(_delete, hub, id)
        case c.ForkSession():
            return fork_session(hub, client, command)

    async def job() -> Fields:
        await hub.reopen(client, command.session)
        outcome = _act(hub, client, command)
        return outcome if isinstance(outcome, dict) else await outcome()

    return job


def _in_session(hub: Hub, client: Client, session: Session, command: c.ForSession) -> Fields | Job:
    call = partial(_call, hub.limits.call)
    match command:
        case c.Prompt():
            return _place(session, command)
        case c.Retell():
            return _placed(session, session.retell())
        case c.Cancel():
            return _cancel(session, command)
        case c.Permission():
            with answering(client.who, client.via):
                return _permission(session, command)
        case c.ToolResult():
            return _tool_result(client, session, command)
        case c.InQueue():
            try:
                return _in_queue(session, command)
            except LocalProtocolError as error:
                raise Refused("unknown_request", str(error)) from error
        case c.RenameSession(title=title):
            session.rename(title)
            return {}
        case c.SetMode(mode=mode):
            return partial(call, partial(session.set_mode, mode))
        case c.SetModel(model=model):
            return partial(call, partial(session.set_model, model))
        case c.SetOption(option=option, value=value):
            return partial(call, partial(session.set_option, option, value))
        case c.StopTask(task=task):
            return partial(call, partial(session.stop_task, task))
        case c.CloseSession():
            return partial(_close, hub, session)
        case c.DeleteSession():
            return partial(_delete, hub, session.id)
        case c.ForkSession():
            return fork_session(hub, client, command)
        case c.FindFiles(query=query):
            [folder] = [i.cwd for i in hub.runtime.list_open() if i.session == session.id]
            return partial(_find_files, hub, folder, query)
    raise TypeError(f"{command} is not for here")


# --- turns


def _place(session: Session, command: c.Prompt) -> Fields:
    if command.when == "steer":
        try:
            session.steer(command.content)
        except LocalProtocolError as error:
            raise Refused("unsupported", str(error)) from error
        running = session.state.turn
        return {"turn": running.id if running is not None else None, "seq": session.log.seq}
    return _placed(session, session.submit(command.content, when=command.when))


def _placed(session: Session, turn: Turn) -> Fields:
    """How a prompt stands that was just taken."""
    if turn.id:
        return {"turn": turn.id, "seq": session.log.seq}
    waiting = [entry.id for entry in session.queue]
    position = waiting.index(turn.entry) + 1
    return {"queued": position, "entry": turn.entry, "seq": session.log.seq}


def _cancel(session: Session, command: c.Cancel) -> Fields:
    running = session.state.turn
    if command.turn is not None and (running is None or running.id != command.turn):
        if command.turn not in session.log.state.turns:
            raise Refused("unknown_turn", f"no turn {command.turn!r} in this session")
        return {"turn": command.turn}  # it is over already
    if command.pause or running is None:
        session.cancel(now=command.now)
    else:
        core = host_of(session).core
        if core.turn is not None:
            core.cancel_turn(core.turn, "cancelled", by="caller")
    return {"turn": running.id if running is not None else None, "seq": session.log.seq}


def _permission(session: Session, command: c.Permission) -> Fields:
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


def _tool_result(client: Client, session: Session, command: c.ToolResult) -> Fields:
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


def _in_queue(session: Session, command: c.InQueue) -> Fields:
    match command:
        case c.QueueRemove(entry=entry):
            session.unqueue(entry)
        case c.QueueEdit(entry=entry, content=content):
            session.edit_queued(entry, content)
        case c.QueuePromote(entry=entry):
            session.promote(entry)
        case c.QueueResume():
            session.resume_queue()
    return {}


async def _call(patience: float, ask: Callable[[], Awaitable[None]]) -> Fields:
    """A request to the agent, which has `limits.call` seconds to answer it."""
    with trio.move_on_after(patience):
        await ask()
        return {}
    raise Refused("agent_failed", f"the agent did not answer in {patience:g} s")


# --- sessions


def new_session(
    hub: Hub, client: Client, command: c.NewSession, mcp_servers: Sequence[JsonObject] = ()
) -> Job:
    cwd = hub.folders.resolve(command.cwd)
    roots = _resolved(hub, command.roots)

    async def job() -> Fields:
        session = await hub.runtime.create(
            command.agent,
            cwd=cwd,
            roots=roots or (),
            title=command.title,
            tools=client.tools,
            mcp_servers=mcp_servers,
            model=command.model,
            mode=command.mode,
        )
        return {"session": session.id}

    return job


def fork_session(
    hub: Hub, client: Client, command: c.ForkSession, mcp_servers: Sequence[JsonObject] = ()
) -> Job:
    roots = _resolved(hub, command.roots)

    async def job() -> Fields:
        session = await hub.runtime.fork(
            command.session,
            at=command.at,
            tools=client.tools,
            mcp_servers=mcp_servers,
            roots=roots,
        )
        return {"session": session.id}

    return job


def _resolved(hub: Hub, roots: list[str] | UnsetType) -> list[str] | None:
    return None if roots is UNSET else [hub.folders.resolve(root) for root in roots]


def _load(hub: Hub, client: Client, command: c.LoadSession) -> Fields | Job:
    cwd, agent, known = hub.folders.resolve(command.cwd), command.agent, command.agent_session
    if command.session is not None:
        if hub.runtime.stored(command.session) is not None:
            return partial(hub.reopen, client, command.session)
        return {"session": hub.session(command.session).id}
    assert agent is not None
    assert known is not None
    if hub.runtime.tenant is not None:  # agents keep the conversations of all in one place
        raise Refused(
            "forbidden",
            "a tenant's token opens no conversation by the agent's id, but by a `session`",
        )

    async def job() -> Fields:
        session = await hub.runtime.load(agent, known, cwd=cwd, tools=client.tools)
        return {"session": session.id}

    return job


async def _close(hub: Hub, session: Session) -> Fields:
    with _refusal_of_adopted():
        return _dropped(await hub.runtime.close(session.id))


async def _delete(hub: Hub, id: str) -> Fields:
    with _refusal_of_adopted():
        return _dropped(await hub.runtime.delete(id))


def _dropped(prompts: int) -> Fields:
    """Tell the client that closes a session how many waiting prompts are dropped with it."""
    return {"dropped": prompts} if prompts else {}


@contextmanager
def _refusal_of_adopted() -> Iterator[None]:
    """A session that is a program's own is not a client's to end."""
    try:
        yield
    except LocalProtocolError as error:
        raise Refused("forbidden", str(error)) from error


async def _find_files(hub: Hub, folder: str, query: str) -> Fields:
    files, complete = await hub.files.find(folder, query)
    return {"files": files, "complete": complete}
