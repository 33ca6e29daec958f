"""A command as a row for another server of the same store: the actions of a `CommandMachine` that
concern other servers.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import trio
from msgspec import Struct

from .._base.tenant import Tenant
from ..errors import LimitExceeded, StoreError, StoreUnavailable
from ..hosting import RuntimeHost
from ..jsonrpc import encode_line
from ..lowlevel import Cluster, CommandRefused, IdReused, PostedCommand
from ..store import CommandStatus
from ..store import StoredCommand as Row
from .client import Client
from .command_machine import CommandEvent, CommandMachine, CommandPlan, CommandState
from .commands import ToolOffer

logger = logging.getLogger("agentrt.server")

PAUSE_S: Final = 0.2
"""Seconds between two attempts to find the owner of a session."""

REMOTE_STATES: Final = frozenset(
    {
        CommandState.LOCATING,
        CommandState.POSTING,
        CommandState.REMOTE,
        CommandState.PASSING_ON,
        CommandState.WITHDRAWING,
        CommandState.ABANDONING,
        CommandState.PAUSING,
    }
)
"""The states whose actions concern other servers."""


class CommandEnvelope(Struct):
    """A message to another server: a client's command, or only the news that the client has come or
    gone (`there`); with the tools that it runs, and its tenant.
    """

    command: msgspec.Raw = msgspec.Raw(b"null")
    tools: list[ToolOffer] = []
    there: bool = True
    tenant: Tenant | None = None


class RemoteCommand:
    """A command as a row for another server. Each method performs one action of its machine and
    returns the next input.

    - `opens`: the command opens the session if that does not run.
    - `runs_here`: returns true for a home whose sessions this process may run.

    `error` is the error to refuse the command with, if it is refused in the present state. Methods
    raise `StoreError`.
    """

    def __init__(
        self,
        cluster: Cluster,
        row: Row,
        machine: CommandMachine,
        *,
        opens: bool,
        runs_here: Callable[[str], bool],
    ) -> None:
        self.error: Exception = LimitExceeded("no server that runs sessions has room for this now")
        self.answer = b""
        """The answer of the other server."""
        self._cluster = cluster
        self._row = row
        self._machine = machine
        self._opens = opens
        self._runs_here = runs_here
        self._owner = 0
        self._status: CommandStatus | None = None
        self._posted: PostedCommand | None = None
        self._polls = 0

    async def perform(self) -> CommandEvent:
        """Perform the action of the machine's state."""
        match self._machine.state:
            case CommandState.LOCATING:
                return await self._locate()
            case CommandState.POSTING:
                return await self._post()
            case CommandState.REMOTE:
                return await self._wait()
            case CommandState.PASSING_ON:
                return await self._pass_on()
            case CommandState.WITHDRAWING | CommandState.ABANDONING:
                return await self._withdraw()
        assert self._machine.state is CommandState.PAUSING
        await trio.sleep(PAUSE_S)
        return CommandEvent.CLOCK

    async def _locate(self) -> CommandEvent:
        """Find the server to carry out the command: the owner of the session, or any that may open
        it.

        A session without an owner is opened on a server of its home, here if this server belongs to
        it. Without a session, any server that runs sessions is chosen.
        """
        session, home = self._row.session, None
        if session:
            owned = await self._cluster.owner(session)
            if owned is not None and owned.node is not None:
                return self._remote(owned.node)
            if owned is None or not self._opens:
                return CommandEvent.OWNER_HERE
            home = owned.home or None
        if self._runs_here(home or ""):
            return CommandEvent.OWNER_HERE
        worker = await self._cluster.worker(home)
        if worker is not None:
            return self._remote(worker)
        self.error = LimitExceeded("no server that runs sessions has room for this now")
        return CommandEvent.NO_OWNER

    def _remote(self, node: int) -> CommandEvent:
        """Note the server to use, or return `OWNER_HERE` if it is this one."""
        if self._cluster.is_mine(node):
            return CommandEvent.OWNER_HERE
        self.error = StoreUnavailable("the server that has this session does not answer")
        self._owner = node
        return CommandEvent.OWNER_REMOTE

    async def _post(self) -> CommandEvent:
        """Store the command as a row for its server. Raises `CommandRefused` if the client has used
        the id for another command.
        """
        try:
            self._watch(await self._cluster.post(self._row, self._owner))
        except IdReused:
            message = f"the id {self._row.id!r} was used for another command"
            raise CommandRefused("bad_request", message) from None
        return CommandEvent.POSTED

    def _watch(self, status: CommandStatus) -> None:
        """Wait for this row from now on, instead of the previous one."""
        self.end()
        self._status = status
        self._posted = self._cluster.wait_for(status)
        self._polls = 0

    async def _wait(self) -> CommandEvent:
        """Wait for news about the stored command, and return it as an event of the machine.

        The row may be answered, given back, given to this server, or gone, and its server may be
        dead; otherwise only time has passed.
        """
        posted, known = self._posted, self._status
        assert posted is not None
        assert known is not None
        if not known.answer:
            await posted.wait(self._polls)
            self._polls, known = posted.polls, posted.status
        if known is None:
            return CommandEvent.ROW_GONE
        self._status = known
        if known.answer:
            self.answer = known.answer
            self._cluster.forget(known.num)
            return CommandEvent.ROW_ANSWERED
        if not known.alive:
            return CommandEvent.OWNER_DEAD
        if known.answer is not None:
            return CommandEvent.ROW_RETURNED
        return (
            CommandEvent.ROW_GIVEN_HERE if self._cluster.is_mine(known.node) else CommandEvent.CLOCK
        )

    async def _pass_on(self) -> CommandEvent:
        """Give the row to the server that owns the session now.

        If the row was given to this server, which also waits here for its answer, it is given back
        instead.
        """
        assert self._status is not None
        if self._machine.is_row_ours:  # it waits here for the answer to this very command
            self._cluster.give_back(self._status.num)
        else:
            self._status = await self._cluster.pass_on(self._status, self._owner)
        if self._posted is not None:
            self._polls = self._posted.polls  # they were before
        return CommandEvent.PASSED_ON

    async def _withdraw(self) -> CommandEvent:
        """Take the row back before its server has begun it. `NOT_WITHDRAWN` means that the server
        was faster.
        """
        assert self._status is not None
        if not await self._cluster.withdraw(self._status):
            return CommandEvent.NOT_WITHDRAWN
        self.end()
        return CommandEvent.WITHDRAWN

    def end(self) -> None:
        """Wait no more for an answer."""
        if self._posted is not None and self._status is not None:
            self._cluster.wait_no_more(self._status.num, self._posted)
        self._posted = None


def announce(runtime: RuntimeHost, client: Client, sessions: Iterable[str], *, there: bool) -> None:
    """Report to other servers that a client that runs tools in their sessions has come or gone."""
    cluster = runtime.cluster
    if cluster is not None:
        for session in sessions:
            runtime.start_soon(_announce, cluster, runtime.tenant, client, session, there)


async def _announce(
    cluster: Cluster, tenant: Tenant | None, client: Client, session: str, there: bool
) -> None:
    """Store the news for the owner of one session. A failure is only logged."""
    tools = list(client.offers.values())
    about = CommandEnvelope(tools=tools, there=there, tenant=tenant)
    row = Row(
        client=client.key,
        id=secrets.token_hex(16),
        session=session,
        digest=b"",
        body=encode_line(about),
    )
    try:
        await ask(cluster, row)
    except StoreError as error:  # the client's lease ends, or the other server does not answer
        logger.info("another server was not informed of a new or lost client: %s", error)


async def ask(cluster: Cluster, row: Row) -> bytes | None:
    """Have a command carried out by the owner of its session, if a process has it open.

    Returns the answer; None if the session is not open on another server. Raises `StoreError` if
    the owner does not answer.
    """
    machine = CommandMachine()
    remote = RemoteCommand(cluster, row, machine, opens=False, runs_here=lambda home: False)
    machine.begin(CommandPlan(located=True, shared=True), trio.current_time())
    try:
        while machine.state in REMOTE_STATES:
            try:
                given = await remote.perform()
            except StoreError as error:
                remote.error, given = error, CommandEvent.STORE_FAILED
            machine.step(given, trio.current_time())
    finally:
        remote.end()
    if machine.state is CommandState.RECALLING:
        raise remote.error
    return remote.answer or None
