"""Execution of commands, whatever protocol they came in by.

A command is passed to the session synchronously and answered immediately, or, if an agent or a
process must be waited for, by a job. Session events report the effects to all viewers alike.
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
"""Commands that may end something that runs: they are carried out and answered whatever the state
of the store.
"""

KNOWN: Final = 0.25
"""Seconds for which a cancel waits for an answer that another server may have given."""

UNOPENED: Final = (c.Cancel, c.CloseSession, c.DeleteSession, c.ForkSession)
"""Commands that do not open a session that is only stored."""


HOLDS: Final = (c.Prompt, c.Retell, c.InQueue, c.RenameSession)
"""Commands that finish before the same client's later commands to the session begin, if more than
one server may carry them out. None of them waits for the agent.
"""

ORDER: Final = 60.0
"""Maximum seconds for which a command waits for earlier ones."""

REPLIES: Final = (c.Permission, c.ToolResult)
"""Commands that wait for no other command, because something waits for them."""


def carry_out(hub: Hub, client: Client, command: c.Command, done: Done, fail: Fail) -> None:
    """Carry out a command and report the result, immediately or when its job is over.

    `done` is called with the result, or `fail` with the error, which may also come from `done`.
    """
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
    """Run a client's commands to a session in the order in which they were sent.

    A command waits for `ORDER` seconds at most, because two servers may wait for each other. A
    command that ends something waits for `patience` seconds at most.
    """
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
    """Carry out a command here, or where its session is if that left this server before the command
    began.
    """
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
    """Carry out a command to a session that is not open here, on the server that has it or opens
    it.

    `doubtful`: the effects of the command may already be stored; then its answer is stored too and
    is found.
    """
    if isinstance(command, c.StopAll):
        here = hub.runtime.cancel_all()
        return {"cancelled": here + await send_to_all(hub, port, client, command)}
    while True:
        try:
            if (fields := await send_on(hub, port, client, command)) is not None:
                return fields
        except StoreError:
            if not doubtful:
                raise  # no server will carry it out
            await trio.sleep(AGAIN)
            continue
        try:
            return await in_hand(hub, store, client, command)
        except SessionElsewhere as error:
            if error.node is None:
                raise  # owned by another home
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
        await trio.sleep(AGAIN)  # another server was first, or this one drains


async def in_hand(hub: Hub, store: Store, client: Client, command: c.Command) -> Fields:
    """Carry out a command on this server. It is not refused if another server carried it out
    before.
    """
    try:
        if isinstance(command, c.ForSession):
            await hub.runtime.find(command.session)
        return await _kept(hub, store, client, command)()
    except (SessionElsewhere, SessionMoved):
        raise
    except StoreError as error:
        failure = error
    known: Fields | None = None
    with suppress(StoreError):  # reading the store may work when writing does not
        known = await client.answered_elsewhere(store, command)
    if known is None:
        raise failure
    return known


def _is_unkept(hub: Hub, command: c.Command) -> bool:
    """True if nothing of the command is stored: it only reads, or its session belongs to the
    program and is not stored.
    """
    if not isinstance(command, c.ForSession) or isinstance(command, c.FindFiles):
        return isinstance(command, c.FindFiles)
    if hub.runtime.stored(command.session) is not None:
        return False
    return host_of(hub.session(command.session)).keeper is None


def _act(hub: Hub, client: Client, command: c.Command) -> Fields | Job:
    """Return the result of a command, or a job to wait for. Raises the command's error."""
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
    """Like `_act`, but store the answer.

    The answer is stored in one flush with the immediate events of the command, or after those that
    take time, and is given once it is stored. So no other server carries out the command again, and
    the answer stays true.
    """
    if store.membership is not None:
        if isinstance(command, c.Cancel) and command.turn is None and hub.is_open(command.session):
            return partial(_cancelled_once, hub, store, client, command)
        if not isinstance(command, ENDS):
            return partial(_kept_once, hub, store, client, command)
    return _kept_here(hub, store, client, command)


async def _kept_once(hub: Hub, store: Store, client: Client, command: c.Command) -> Fields:
    """Carry out a command unless another server that shares the store did. This is checked once the
    session belongs to this process: from then on no other server can.
    """
    if isinstance(command, c.ForSession) and not isinstance(command, UNOPENED):
        if hub.runtime.stored(command.session) is not None:
            await hub.reopen(client, command.session)
    known = await client.answered_elsewhere(store, command)
    return await _kept_here(hub, store, client, command)() if known is None else known


async def _cancelled_once(hub: Hub, store: Store, client: Client, command: c.Cancel) -> Fields:
    """Cancel the running turn, unless another server already carried out this cancel: then it did
    not mean this turn. It does not wait for a store that does not answer.
    """
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
    with host.core.step():
        outcome = _act(hub, client, command)
        if isinstance(outcome, dict):
            if "seq" in outcome:
                outcome["seq"] = host.log.seq
            if (answer := client.answer_to(command, outcome)) is not None:
                keeper.answers.append(answer)
    if not isinstance(outcome, dict) or keeper.answers:
        keeper.answers.clear()  # the command caused no event to store it with
        return partial(_kept_behind, store, client, command, outcome)
    fields, seq = outcome, host.log.seq

    async def job() -> Fields:
        if store.membership is None or isinstance(command, ENDS):
            await keeper.wait_until_kept(seq)
        else:  # if it may be stored, another server may carry it out: do not refuse it
            await keeper.wait_until_known(seq)
        if session.log.seq < seq and not isinstance(command, ENDS):
            keeper.check()  # raises the reason
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
    """Like `_act`, for a session that is not open. Commands that need it open, open it."""
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
    call = partial(_call, hub.limits.request_timeout_s)
    match command:
        case c.Prompt():
            return _place(session, command)
        case c.Retell():
            return _placed(session, session.send_history())
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
    """Return the position of a prompt that was just accepted."""
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
        return {"turn": command.turn}  # it is already over
    if command.pause or running is None:
        session.cancel(now=command.now)
    else:
        core = host_of(session).core
        if core.turn is not None:
            core.cancel_turn(core.turn, "cancelled", by="caller")
    return {"turn": running.id if running is not None else None, "seq": session.log.seq}


def _permission(session: Session, command: c.Permission) -> Fields:
    if command.request not in session.pending_permissions:
        if host_of(session).core.conversation.items.was_asked(command.request):
            raise Refused("already_resolved", f"the request {command.request!r} is closed")
        raise Refused("unknown_request", f"no request {command.request!r} in this session")
    if command.content is not None:
        session.submit_form(command.request, command.content)
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
            session.queue.remove(entry)
        case c.QueueEdit(entry=entry, content=content):
            session.queue.edit(entry, content)
        case c.QueuePromote(entry=entry):
            session.queue.promote(entry)
        case c.QueueResume():
            session.queue.resume()
    return {}


async def _call(patience: float, ask: Callable[[], Awaitable[None]]) -> Fields:
    """Send a request to the agent and wait at most `patience` seconds (`limits.request_timeout_s`)
    for its answer.
    """
    with trio.move_on_after(patience):
        await ask()
        return {}
    raise Refused("agent_failed", f"the agent did not answer in {patience:g} s")


# --- sessions


def new_session(
    hub: Hub, client: Client, command: c.NewSession, mcp_servers: Sequence[JsonObject] = ()
) -> Job:
    """Return a job that opens a session. Raises `Refused` for a folder that is not allowed."""
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
    """Return a job that forks a session. Raises `Refused` for a folder that is not allowed."""
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
    if hub.runtime.tenant is not None:  # agents keep the conversations of all tenants in one place
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
    """Report to the client how many queued prompts were dropped with a closed session."""
    return {"dropped": prompts} if prompts else {}


@contextmanager
def _refusal_of_adopted() -> Iterator[None]:
    """Refuse to end a session that belongs to the program."""
    try:
        yield
    except LocalProtocolError as error:
        raise Refused("forbidden", str(error)) from error


async def _find_files(hub: Hub, folder: str, query: str) -> Fields:
    files, complete = await hub.files.find(folder, query)
    return {"files": files, "complete": complete}
