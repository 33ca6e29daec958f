"""Execution of commands, whatever protocol they came in by.

A command is passed to the session synchronously and answered immediately, or, if an agent or a
process must be waited for, by a job. Session events report the effects to all viewers alike.

A command takes this way, with the parts that are not needed left out:

- `carry_out` creates a `CommandRun`, which makes a plan (`_plan`): the properties of the command,
  the session and the server that decide its way. From then on, `CommandMachine` decides each next
  step, and this module performs it. The machine is pure; `command_machine` has the table of its
  states.
- The command waits for earlier ones of the same client to the same session, so that their order is
  kept if one of them has to wait for another server.
- If the session is open on another server, the command is stored for that server (`RemoteCommand`),
  and its answer is read from the store. Otherwise the session is opened here, if the command needs
  it open.
- If another server may have carried it out already, because the client lost its connection and sent
  it again, the stored answer is returned instead.
- `_act` begins the command. Everything that can be done immediately is done in this call, without a
  checkpoint, so that no other command comes between the check and the effect. The rest is a *job*:
  an async function that returns the fields of the answer.
- The answer is stored before it is sent: if the server ends in between, the client sends the
  command again and the next server recognises it. Commands that only read have nothing to store,
  and commands that end something do not wait for a failing store.

The result is a dict of fields for the answer, the same for all protocols. Errors are exceptions;
`answers.as_refusal` makes the refusal for the client of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import trio
from msgspec import UNSET, UnsetType

from .._public import Session, SessionInfo, Turn
from ..errors import (
    LimitExceeded,
    LocalProtocolError,
    SessionClosed,
    SessionElsewhere,
    SessionMoved,
    StoreError,
)
from ..events import JsonObject
from ..hosting import SessionControl
from ..lowlevel import CommandFields, CommandRefused, Steps
from . import commands as c
from .answers import ack, as_refusal
from .client import Client, Job, Unstored, digest_of
from .command_machine import CommandEvent, CommandMachine, CommandPlace, CommandPlan, CommandState
from .hub import Hub
from .remote_command import RemoteCommand
from .routing import NOT_OPENING, fields_of, is_elsewhere, row_of, session_of, stop_others

ENDS: Final = (c.Cancel, c.Permission, c.StopAll, c.StopTask, c.CloseSession)
"""Commands that may end something that runs: they are carried out and answered whatever the state
of the store.
"""

RECALL_S: Final = 0.25
"""Seconds for which a cancel waits for an answer that another server may have given."""

CONFIRM_S: Final = 2.0
"""Maximum seconds for which an answer waits until the effects of the command are known here."""

ORDER_S: Final = 60.0
"""Maximum seconds for which a command waits for earlier ones, because two servers may wait for each
other.
"""

SHORT_ORDER_S: Final = 0.25
"""The time limit of a command that ends something in a session that is open here."""

UNOPENED: Final = (
    c.Cancel,
    c.CloseSession,
    c.DeleteSession,
    c.ForkSession,
    c.ListFolder,
    c.ReadFile,
)
"""Commands that do not open a session that is only stored."""


HOLDS: Final = (c.Prompt, c.Retell, c.InQueue, c.RenameSession)
"""Commands that finish before the same client's later commands to the session begin, if more than
one server may carry them out. None of them waits for the agent.
"""

REPLIES: Final = (c.Permission, c.ToolResult)
"""Commands that wait for no other command, because something waits for them."""


def carry_out(hub: Hub, client: Client, command: c.ViewerCommand) -> Steps[CommandFields]:
    """Carry out a command and return its result. Raises the command's error, or `GivenUp`.

    It begins synchronously, unless it has to wait for other servers or to open its session.
    """
    run = CommandRun(hub, client, command)
    if run.needs_room:
        client.check_room()
    run.begin()
    if not run.is_over:
        yield from client.wait(run.finish, always=run.needs_room or is_elsewhere(hub, command))
    return run.result()


def answer(hub: Hub, client: Client, command: c.ViewerCommand) -> Steps[None]:
    """Carry out a command, and answer it to all connections that wait for the answer."""
    try:
        fields = yield from carry_out(hub, client, command)
    except Exception as error:
        client.refuse(command.id, as_refusal(error))
    else:
        client.answer(command.id, ack(command.id, fields))


class CommandRun:
    """One command being carried out: performs the actions of its `CommandMachine`.

    `forwarded`: its client is at another server, which looks for the session's next owner.
    """

    def __init__(
        self, hub: Hub, client: Client, command: c.ViewerCommand, *, forwarded: bool = False
    ) -> None:
        self._hub = hub
        self._client = client
        self._command = command
        self._plan = _plan(hub, client, command, forwarded=forwarded)
        self._machine = CommandMachine()
        self._fields: CommandFields = {}
        self._error: Exception | None = None
        self._job: Job | None = None
        """The part of the command that takes time, once it has begun."""
        self._stored: Job | None = None
        """Waits until the command is stored; None if its answer must be stored by itself."""
        self._remote: RemoteCommand | None = None
        self._place: CommandPlace | None = None
        if (known := client.unstored(command)) is not None:
            self._machine, self._fields, self._stored = known.machine, known.fields, known.stored

    @property
    def needs_room(self) -> bool:
        """True if it is not begun while too many commands of its client are running."""
        waits = self._plan.located or self._plan.stored
        return waits and not isinstance(self._command, ENDS)

    @property
    def is_over(self) -> bool:
        """True if there is a result."""
        return self._machine.is_over

    def result(self) -> CommandFields:
        """Return the result. Raises the command's error, or `GivenUp`. Call it only once."""
        if self._machine.state is CommandState.ANSWERED:
            return self._fields
        if self._machine.state is CommandState.GIVEN_UP:
            raise self._client.give_up(self._command.id)
        error, self._error = self._error, None
        assert error is not None
        try:
            raise error
        finally:
            del error  # it refers to this frame

    def begin(self) -> None:
        """Take the command's place in the order, and carry it out if nothing is to be waited
        for.
        """
        if self._plan.ordered and isinstance(self._command, c.ForSession):
            holds = isinstance(self._command, HOLDS)
            self._place = self._client.order.enter(self._command.session, holds=holds)
        self._machine.begin(self._plan, trio.current_time())
        if self._machine.state is CommandState.BEGUN:
            try:
                self._job = self._act()
            except Exception as error:
                self._step(self._failed(error))
            else:
                if self._job is None:
                    self._step(CommandEvent.DONE)

    async def finish(self) -> CommandFields:
        """Carry the command out to its end. The result is that of `result`."""
        try:
            while not self._machine.is_over:
                try:
                    given = await self._perform()
                except Exception as error:
                    given = self._failed(error)
                self._step(given)
        finally:
            if self._remote is not None:
                self._remote.end()
            self._leave()
        return {}

    def _leave(self) -> None:
        """Let the client's later commands to the session begin."""
        if self._place is not None and isinstance(self._command, c.ForSession):
            given_up = self._machine.state is CommandState.GIVEN_UP
            self._client.leave_order(self._command.session, self._place, given_up=given_up)

    def _step(self, given: CommandEvent) -> None:
        """Give the machine an event, and remember the outcome if the answer could not be stored.

        The client may send such a command again under the same id: it continues with the kept
        machine and result then, and is not carried out twice.
        """
        state = self._machine.step(
            given, trio.current_time(), client_here=self._plan.forwarded or self._client.is_here
        )
        if self._plan.stored and self._machine.is_over:
            unstored: Unstored | None = None
            if state is CommandState.UNSTORED:
                digest = digest_of(self._command)
                stored = self._stored or self._keep_answer
                unstored = Unstored(digest, self._machine, self._fields, stored)
            self._client.keep_unstored(self._command.id, unstored)

    def _failed(self, error: Exception) -> CommandEvent:
        """Return the input for an error, and keep the error to refuse the command with."""
        self._error = error
        hub, command = self._hub, self._command
        leaves = self._plan.shared and self._machine.state in (
            CommandState.OPENING,
            CommandState.CHECKING,
            CommandState.BEGUN,
        )
        match error:
            case SessionMoved() if leaves or self._machine.state is CommandState.STORING:
                return CommandEvent.MOVED
            case SessionElsewhere(node=str()) if leaves:
                return CommandEvent.LEFT
            case SessionElsewhere():
                return CommandEvent.FAILED  # it belongs to another home
            case StoreError():
                return CommandEvent.STORE_FAILED
            case LimitExceeded() if leaves and not hub.runtime.runs_here():
                return CommandEvent.LEFT if is_elsewhere(hub, command) else CommandEvent.FAILED
            case SessionClosed() if leaves and is_elsewhere(hub, command):
                return CommandEvent.LEFT
        return CommandEvent.FAILED

    async def _perform(self) -> CommandEvent:
        """Perform the action of the machine's state."""
        match self._machine.state:
            case CommandState.WAITING:
                assert self._place is not None
                ends = isinstance(self._command, ENDS) and not self._plan.located
                patience_s = SHORT_ORDER_S if ends and not self._plan.forwarded else ORDER_S
                return await self._client.wait_for_earlier(self._place, patience_s)
            case CommandState.OPENING:
                return await self._open()
            case CommandState.CHECKING:
                return await self._check()
            case CommandState.BEGUN:
                job, self._job = self._job or self._act(), None
                if job is not None:
                    self._fields = await job()
                return CommandEvent.DONE
            case CommandState.STORING:
                await (self._stored or self._keep_answer)()
                return CommandEvent.STORED
            case CommandState.RECALLING:
                return await self._recall()
            case CommandState.CONFIRMING:
                return await self._confirm()
        return await self._perform_remotely()

    async def _perform_remotely(self) -> CommandEvent:
        """Carry out the command on the server that owns the session, and return the event for the
        machine.

        It waits for earlier commands of the client first, so that their order holds across servers.
        A tenant's command is refused before it is stored, unless the tenant has the session.
        """
        hub, client, command = self._hub, self._client, self._command
        if (remote := self._remote) is None:
            if self._place is not None and not self._plan.located:  # it waited only for a moment
                await client.wait_for_earlier(self._place, ORDER_S)
            cluster = hub.runtime.cluster
            assert cluster is not None
            row = row_of(hub, client, command)
            if hub.runtime.tenant is not None and row.session:
                if not await hub.runtime.find(row.session):
                    message = f"no session {row.session!r} is open or stored"
                    raise CommandRefused("unknown_session", message)
            opens = not isinstance(command, NOT_OPENING)
            runs_here = hub.runtime.runs_here
            remote = RemoteCommand(cluster, row, self._machine, opens=opens, runs_here=runs_here)
            self._remote = remote
        given = await remote.perform()
        self._error = remote.error
        if given is CommandEvent.ROW_ANSWERED:
            self._fields = fields_of(remote.answer)
            if client.tool_names and not isinstance(command, NOT_OPENING):
                client.away.add(self._fields.get("session") or session_of(command))
        return given

    # --- the actions in this process

    async def _open(self) -> CommandEvent:
        """Open the session if the command needs it open and it is only stored.

        If other servers share the store, the session is looked up first, because this server may
        not know of it yet.
        """
        runtime, command = self._hub.runtime, self._command
        if isinstance(command, c.ForSession):
            if self._plan.located or self._plan.forwarded:
                await runtime.find(command.session)
            if not isinstance(command, UNOPENED) and runtime.stored(command.session) is not None:
                await self._hub.reopen(self._client, command.session)
        return CommandEvent.OPENED

    async def _check(self) -> CommandEvent:
        """Look whether another server has carried the command out. From now on no other server can,
        because the session belongs to this process.
        """
        command = self._command
        if isinstance(command, c.Cancel):
            return await self._check_cancel(command)
        return await self._recall()

    async def _check_cancel(self, command: c.Cancel) -> CommandEvent:
        """Check a cancel of the running turn. It does not wait for a store that does not answer,
        and cancels no turn that began in the meantime.
        """
        hub, store = self._hub, self._hub.runtime.store
        if command.turn is not None or not hub.is_open(command.session):
            return CommandEvent.UNKNOWN
        before = hub.session(command.session).state.turn
        assert store is not None
        if before is None or store.status.state != "ok":
            return CommandEvent.UNKNOWN
        with trio.move_on_after(RECALL_S):
            if await self._recall() is CommandEvent.KNOWN:
                return CommandEvent.KNOWN
        if hub.is_open(command.session):
            now = hub.session(command.session).state.turn
            if now is not None and now.id == before.id:
                return CommandEvent.UNKNOWN
        self._fields = {"turn": before.id}
        return CommandEvent.KNOWN

    async def _recall(self) -> CommandEvent:
        """Look for the answer of a server that carried out the same command before."""
        known = await self._client.answered_elsewhere(self._command)
        if known is None:
            return CommandEvent.UNKNOWN
        self._fields = known
        return CommandEvent.KNOWN

    async def _confirm(self) -> CommandEvent:
        """Wait until the effects of a command are known here, so that they do not come after its
        answer, just as on the server that carried it out.
        """
        session = session_of(self._command)
        opened, seq = self._fields.get("session"), self._fields.get("seq")
        if isinstance(opened, str) and opened != session:
            await self._hub.read(opened)
        if isinstance(seq, int):
            with trio.move_on_after(CONFIRM_S):
                await self._hub.reach(session, seq)
        return CommandEvent.KNOWN

    @property
    def _is_unlocated(self) -> bool:
        """True if the session has left this server since the command came, and may be open on
        another one, which was not looked for.
        """
        moved = self._plan.shared and is_elsewhere(self._hub, self._command)
        return moved and self._remote is None

    def _act(self) -> Job | None:
        """Begin the command. Returns the job that does the rest; None if it is done."""
        hub, command = self._hub, self._command
        self._stored = None
        if isinstance(command, c.Cancel | c.CloseSession) and self._is_unlocated:
            raise SessionClosed("the session was moved to another server before the command began")
        if self._plan.stored and isinstance(command, c.ForSession):
            if hub.runtime.stored(command.session) is None:
                return self._act_in(hub.session(command.session))
        outcome = _act(hub, self._client, command)
        if not isinstance(outcome, dict):
            return outcome
        self._fields = outcome
        return None

    def _act_in(self, session: Session) -> Job | None:
        """Begin the command in an open session, so that its answer is stored in one flush with its
        immediate events. If there are none, or it takes time, its answer is stored after it.
        """
        control, command = SessionControl(session), self._command
        with control.step():
            outcome = _act(self._hub, self._client, command)
            if isinstance(outcome, dict):
                if "seq" in outcome:
                    outcome["seq"] = control.seq
                if (answer := self._client.answer_to(command, outcome)) is not None:
                    control.answers.append(answer)
        if not isinstance(outcome, dict):
            control.answers.clear()
            return outcome
        self._fields = outcome
        if control.answers:
            control.answers.clear()  # the command caused no event to store it with
        else:
            ends, shared = isinstance(command, ENDS), self._plan.shared
            self._stored = partial(_wait_for_events, session, control.seq, ends=ends, shared=shared)
        return None

    async def _keep_answer(self) -> CommandFields:
        """Store the answer by itself, for commands without events that it could be stored with."""
        await self._hub.runtime.keep_answer(self._client.answer_to(self._command, self._fields))
        return self._fields


async def _wait_for_events(
    session: Session, seq: int, *, ends: bool, shared: bool
) -> CommandFields:
    """Wait until the events of a command up to `seq` are stored, as its answer is stored with them.

    Raises the store's error if they were not stored, except for commands that end something
    (`ends`): their effect stays whatever the store does. `shared`: other servers use the store.
    """
    control = SessionControl(session)
    if ends or not shared:
        await control.wait_until_kept(seq)
    else:  # if it may be stored, another server may carry it out: do not refuse it
        await control.wait_until_known(seq)
    if session.log.seq < seq and not ends:
        control.check_stored()  # raises the reason
    return {}


def _plan(hub: Hub, client: Client, command: c.ViewerCommand, *, forwarded: bool) -> CommandPlan:
    """Return the plan for a command: the properties that decide its way through `CommandMachine`.

    `forwarded`: it comes from another server. A command that ends something is never held up by
    checks with other servers, except a cancel that names no turn.
    """
    shared, ends = hub.runtime.is_shared, isinstance(command, ENDS)
    located = not forwarded and is_elsewhere(hub, command) and not isinstance(command, c.StopAll)
    if not located and not forwarded and not _is_stored(hub, client, command):
        return CommandPlan(prepared=_opens(hub, command), ends=ends)
    named = isinstance(command, c.Cancel) and command.turn is not None
    checked = shared and (not ends or (isinstance(command, c.Cancel) and not named))
    unordered = named or isinstance(command, REPLIES) or not isinstance(command, c.ForSession)
    return CommandPlan(
        ordered=shared and not unordered,
        located=located,
        prepared=forwarded or checked or _opens(hub, command),
        checked=checked,
        stored=True,
        shared=shared,
        forwarded=forwarded,
        ends=ends,
    )


def _is_stored(hub: Hub, client: Client, command: c.ViewerCommand) -> bool:
    """True if the answer to a command is stored before it is given.

    It is not if the command only reads, if its session belongs to the program and is not stored, or
    if it ends something and nothing more may wait. A `StopAll` that concerns several servers is
    harmless if it is repeated.
    """
    if hub.runtime.store is None or isinstance(command, c.READS):
        return False
    if isinstance(command, c.StopAll) and hub.runtime.cluster is not None:
        return False
    if isinstance(command, ENDS) and not client.has_room:
        return False
    if isinstance(command, c.ForSession) and hub.runtime.stored(command.session) is None:
        return SessionControl(hub.session(command.session)).is_stored
    return True


def _opens(hub: Hub, command: c.ViewerCommand) -> bool:
    """True if a command opens its session, which is only stored."""
    if not isinstance(command, c.ForSession) or isinstance(command, UNOPENED):
        return False
    return hub.runtime.stored(command.session) is not None


def _act(hub: Hub, client: Client, command: c.ViewerCommand) -> CommandFields | Job:
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
            return _stop_all(hub, client, command)
        case c.ListFolders(path=path):
            return partial(hub.file_viewer.subfolders, hub.folders, path)
    raise TypeError(f"{command} cannot be used here")


def _in_stored(hub: Hub, client: Client, command: c.ForSession) -> CommandFields | Job:
    """Like `_act`, for a session that is not open.

    Raises `SessionClosed` for a command that needs an open one: the session was open, or was opened
    for the command, and has been closed since. If other servers share the store, the command then
    looks for the session's next owner.
    """
    match command:
        case c.Cancel(turn=turn):
            return {"turn": turn}  # nothing runs
        case c.CloseSession():
            return {}
        case c.DeleteSession(session=id):
            return partial(_delete, hub, id)
        case c.ForkSession():
            return fork_session(hub, client, command)
        case c.ListFolder(session=id) | c.ReadFile(session=id):
            if (info := hub.runtime.stored(id)) is not None:
                return _view_files(hub, info, command)
    raise SessionClosed("the session was closed before the command began")


def _in_session(
    hub: Hub, client: Client, session: Session, command: c.ForSession
) -> CommandFields | Job:
    """Carry out a command for a session that is open on this server.

    Returns the fields of the answer, or a job if it cannot be done at once. Raises
    `CommandRefused`.
    """
    match command:
        case c.Prompt():
            return _place(session, command)
        case c.Retell():
            return _placed(session, session.send_history())
        case c.Cancel():
            return _cancel(session, command)
        case c.Permission():
            return _permission(session, command)
        case c.ToolResult():
            return _tool_result(client, session, command)
        case c.InQueue():
            try:
                return _in_queue(session, command)
            except LocalProtocolError as error:
                raise CommandRefused("unknown_request", str(error)) from error
        case c.RenameSession(title=title):
            session.rename(title)
            return {}
        case c.FindFiles(query=query):
            return partial(_find_files, hub, _open_info(hub, session).cwd, query)
        case c.ListFolder() | c.ReadFile() | c.ShowUncommitted():
            return _view_files(hub, _open_info(hub, session), command)
    return _job_in(hub, client, session, command)


def _job_in(hub: Hub, client: Client, session: Session, command: c.ForSession) -> Job:
    """Return the job of a command that waits for the agent or for the end of the session."""
    call = partial(_call, hub.limits.request_timeout_s)
    match command:
        case c.SetMode(mode=mode):
            return partial(call, partial(session.set_mode, mode))
        case c.SetModel(model=model):
            return partial(call, partial(session.set_model, model))
        case c.SetOption(option=option, value=value):
            return partial(call, partial(session.set_option, option, value))
        case c.RevokeAccess(target=target):
            return partial(call, partial(_revoke, session, target))
        case c.StopTask(task=task):
            return partial(call, partial(session.stop_task, task))
        case c.ForCheckpoints():
            return partial(_checkpoints, session, command)
        case c.CloseSession():
            return partial(_close, hub, session)
        case c.DeleteSession():
            return partial(_delete, hub, session.id)
        case c.ForkSession():
            return fork_session(hub, client, command)
    raise TypeError(f"{command} cannot be used here")


# --- turns


def _place(session: Session, command: c.Prompt) -> CommandFields:
    """Send a prompt to the agent, or into the running turn with `when="steer"`.

    Raises `CommandRefused` if the agent cannot take a prompt during a turn.
    """
    if command.when == "steer":
        try:
            session.steer(command.content)
        except LocalProtocolError as error:
            raise CommandRefused("unsupported", str(error)) from error
        running = session.state.turn
        return {"turn": running.id if running is not None else None, "seq": session.log.seq}
    return _placed(session, session.submit(command.content, when=command.when))


def _placed(session: Session, turn: Turn) -> CommandFields:
    """Return the position of a prompt that was just accepted."""
    if turn.id:
        return {"turn": turn.id, "seq": session.log.seq}
    waiting = [entry.id for entry in session.queue]
    position = waiting.index(turn.entry) + 1
    return {"queued": position, "entry": turn.entry, "seq": session.log.seq}


def _cancel(session: Session, command: c.Cancel) -> CommandFields:
    """Cancel a turn, and pause the queue if the client wants that.

    A turn that is over already is reported as cancelled: the client's Stop may cross with the end
    of the turn. Without a running turn, `cancel` still pauses queued prompts.
    """
    running = session.state.turn
    if command.turn is not None and (running is None or running.id != command.turn):
        if command.turn not in session.log.state.turns:
            raise CommandRefused("unknown_turn", f"no turn {command.turn!r} in this session")
        return {"turn": command.turn}  # it is already over
    if command.pause or running is None:
        session.cancel(now=command.now)
    else:
        SessionControl(session).cancel_turn()
    return {"turn": running.id if running is not None else None, "seq": session.log.seq}


def _permission(session: Session, command: c.Permission) -> CommandFields:
    """Answer a permission request by an option or a form, or dismiss it.

    Raises `CommandRefused` with `already_resolved` if it was answered before, so that the losers of
    a race between two clients can tell that from a wrong id.
    """
    if command.request not in session.pending_permissions:
        if SessionControl(session).was_asked(command.request):
            raise CommandRefused("already_resolved", f"the request {command.request!r} is closed")
        raise CommandRefused("unknown_request", f"no request {command.request!r} in this session")
    if command.content is not None:
        session.submit_form(command.request, command.content)
    elif command.option is not None:
        session.answer(command.request, command.option, note=command.note)
    else:
        session.dismiss(command.request, command.note)
    return {}


async def _revoke(session: Session, target: str) -> None:
    with SessionControl(session).acting("revoke", target=target):
        if session.sandbox is None:
            raise CommandRefused("unsupported", "the session has no sandbox")
        await session.sandbox.revoke(target)


def _tool_result(client: Client, session: Session, command: c.ToolResult) -> CommandFields:
    """Give the agent the result of a tool that this client runs.

    Raises `CommandRefused`, with a reason that tells apart a call that does not exist, one that
    another client or the agent itself runs, and one that is over.
    """
    with SessionControl(session).acting("tool_result", item=command.item):
        if client.calls.finish(session.id, command.item, command.content, error=command.error):
            return {}
        item = session.log.state.items.get(command.item)
        if item is None or item.tool is None:
            message = f"no tool call {command.item!r} in this session"
            raise CommandRefused("unknown_request", message)
        if item.tool.owner != "client":
            raise CommandRefused("forbidden", f"this tool is run by the {item.tool.owner}")
        if item.status == "waiting":
            raise CommandRefused("forbidden", "another client runs this tool")
        raise CommandRefused("already_resolved", f"the call {command.item!r} is over")


def _in_queue(session: Session, command: c.InQueue) -> CommandFields:
    """Change the session's queue of prompts. Raises `LocalProtocolError` for an unknown entry."""
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


async def _call(patience: float, ask: Callable[[], Awaitable[None]]) -> CommandFields:
    """Send a request to the agent and wait at most `patience` seconds (`limits.request_timeout_s`)
    for its answer.
    """
    with trio.move_on_after(patience):
        await ask()
        return {}
    raise CommandRefused("agent_failed", f"the agent did not answer in {patience:g} s")


async def _checkpoints(session: Session, command: c.ForCheckpoints) -> CommandFields:
    """List, compare or restore the checkpoints of the session's folder.

    Raises `CommandRefused` with `unsupported` if the session has none.
    """
    try:
        checkpoints = session.checkpoints
        match command:
            case c.ListCheckpoints():
                return {"checkpoints": await checkpoints.list()}
            case c.DiffCheckpoints(old=old, new=new):
                return {"diff": await checkpoints.diff(old, new)}
            case c.RestoreCheckpoint(checkpoint=number):
                return {"restored": await checkpoints.restore(number)}
    except LocalProtocolError as error:
        raise CommandRefused("unsupported", str(error)) from error
    raise TypeError(f"{command} cannot be used here")


def _stop_all(hub: Hub, client: Client, command: c.StopAll) -> CommandFields | Job:
    """Cancel all turns on this server, then those on the others.

    The turns of this server are cancelled immediately, also if the database with which the others
    are reached is down.
    """
    here, cluster = hub.runtime.cancel_all(), hub.runtime.cluster
    if cluster is None:
        return {"cancelled": here}

    async def job() -> CommandFields:
        return {"cancelled": here + await stop_others(hub, cluster, client, command)}

    return job


# --- sessions


def new_session(
    hub: Hub, client: Client, command: c.NewSession, mcp_servers: Sequence[JsonObject] = ()
) -> Job:
    """Return a job that opens a session.

    Raises `CommandRefused` for a folder that is not allowed.
    """
    cwd = hub.folders.resolve(command.cwd)
    roots = _resolved(hub, command.roots)
    sandbox = hub.runtime.client_sandbox(None if command.sandbox is UNSET else command.sandbox)

    async def job() -> CommandFields:
        """Create the session. A trust decision in the command overrides the server's setting."""
        trust = hub.runtime.trust if command.trust is None else command.trust
        session = await hub.runtime.create(
            command.agent,
            cwd=cwd,
            roots=roots or (),
            title=command.title,
            tools=client.tools,
            mcp_servers=mcp_servers,
            model=command.model,
            mode=command.mode,
            trust=trust,
            sandbox=sandbox,
        )
        return {"session": session.id}

    return job


def fork_session(
    hub: Hub, client: Client, command: c.ForkSession, mcp_servers: Sequence[JsonObject] = ()
) -> Job:
    """Return a job that forks a session.

    Raises `CommandRefused` for a folder that is not allowed.
    """
    roots = _resolved(hub, command.roots)

    async def job() -> CommandFields:
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
    """Resolve additional folders; None stands for a command that does not mention them.

    Raises `CommandRefused` for a folder that is not allowed.
    """
    return None if roots is UNSET else hub.folders.resolve_all(roots)


def _load(hub: Hub, client: Client, command: c.LoadSession) -> CommandFields | Job:
    """Open a stored session, or a conversation that an agent has stored itself.

    Raises `CommandRefused` for the latter with a tenant's token: agents keep the conversations of
    all tenants in one place.
    """
    agent, known = command.agent, command.agent_session
    if command.session is not None:
        if hub.runtime.stored(command.session) is not None:
            return partial(hub.reopen, client, command.session)
        return {"session": hub.session(command.session).id}
    assert agent is not None
    assert known is not None
    if hub.runtime.tenant is not None:  # agents keep the conversations of all tenants in one place
        raise CommandRefused(
            "forbidden",
            "with a tenant's token, a conversation is opened by its `session`, not by the"
            " agent's id",
        )
    cwd = hub.folders.resolve(command.cwd)

    async def job() -> CommandFields:
        session = await hub.runtime.load(agent, known, cwd=cwd, tools=client.tools)
        return {"session": session.id}

    return job


async def _close(hub: Hub, session: Session) -> CommandFields:
    """Close a session. Raises `CommandRefused` if it belongs to the program."""
    with _refusal_of_adopted():
        return _dropped(await hub.runtime.close(session.id))


async def _delete(hub: Hub, id: str) -> CommandFields:
    """Delete a session and its log. Raises `CommandRefused` if it belongs to the program."""
    with _refusal_of_adopted():
        return _dropped(await hub.runtime.delete(id))


def _dropped(prompts: int) -> CommandFields:
    """Report to the client how many queued prompts were dropped with a closed session."""
    return {"dropped": prompts} if prompts else {}


@contextmanager
def _refusal_of_adopted() -> Iterator[None]:
    """Refuse to end a session that belongs to the program."""
    try:
        yield
    except LocalProtocolError as error:
        raise CommandRefused("forbidden", str(error)) from error


async def _find_files(hub: Hub, folder: str, query: str) -> CommandFields:
    """Search for files in a session's folder. `complete` is false if the folder could not be listed
    completely.
    """
    files, complete = await hub.files.find(folder, query)
    return {"files": files, "complete": complete}


def _view_files(
    hub: Hub, info: SessionInfo, command: c.ListFolder | c.ReadFile | c.ShowUncommitted
) -> Job:
    """Return a job that reads files of a session's folders."""
    viewer = hub.file_viewer
    if isinstance(command, c.ShowUncommitted):
        return partial(viewer.uncommitted, info.cwd)
    if isinstance(command, c.ListFolder):
        return partial(viewer.folder, info.cwd, info.roots, command.path)
    encoded = command.encoding == "base64"
    where = (info.cwd, info.roots, command.path)
    return partial(viewer.file, *where, command.start, command.count, encoded=encoded)


def _open_info(hub: Hub, session: Session) -> SessionInfo:
    """Return the summary of an open session."""
    return next(info for info in hub.runtime.list_open() if info.session == session.id)
