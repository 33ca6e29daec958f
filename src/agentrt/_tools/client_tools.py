"""Tools that a client runs: something only a person's browser can do, say.

To the agent they are in-process tools like any other. A call of one is shown as a tool item with
the owner `client` and waits for that client's result; the turn's cancel, a deadline and a client
that has gone and does not come back each end it, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import trio

from .._model.content import Block, JsonObject, ToolContent, ToolText
from .._model.driver import ToolCalled
from .._model.events import ItemStatus
from .._session.core import SessionCore
from .._session.session import host_of
from .._wire.mcp import ToolOutcome
from .tools import Tool, ToolContext, ToolError


class ClientTool(Tool, frozen=True):
    """A tool that a client runs. Who opens the session again offers its own."""


class ClientTools:
    """The tools of one client, in all sessions, and the calls that wait for its results."""

    def __init__(self) -> None:
        self._offered: frozenset[str] = frozenset()
        self._calls: dict[tuple[str, str], _Call] = {}
        self._expected_until = math.inf
        """When a client that has gone counts as one that does not come back."""

    def offer(self, names: Iterable[str]) -> None:
        """The client is there and runs these tools; calls of others fail at once."""
        self._offered = frozenset(names)
        self._expected_until = math.inf
        for call in self._calls.values():
            call.scope.deadline = call.deadline
            if call.name not in self._offered and call.outcome is None:
                call.end(ToolOutcome.error("the client does not run this tool any more"))

    def make(
        self, name: str, description: str, input_schema: JsonObject, *, deadline: float
    ) -> ClientTool:
        """A tool that waits for this client, `deadline` seconds at most. ValueError for a name
        that a tool cannot have."""
        return ClientTool(name, description, input_schema, partial(self._run, name, deadline))

    def finish(self, session: str, item: str, content: list[Block], *, error: bool) -> bool:
        """The client's result of a call. False: no such call waits for this client."""
        if not self.waits(session, item):
            return False
        self._calls[session, item].end(ToolOutcome(content, is_error=error))
        return True

    @property
    def expected(self) -> bool:
        """Whether the client is there."""
        return self._expected_until == math.inf

    @property
    def waiting(self) -> bool:
        """Whether a call waits for this client, in any session."""
        return bool(self._calls)

    def waits(self, session: str, item: str | None = None) -> bool:
        """Whether a call (any, without an item) waits for this client."""
        return any(
            call.outcome is None and of == session and item in (None, id)
            for (of, id), call in self._calls.items()
        )

    def disconnect(self, grace: float) -> None:
        """The client is gone: its calls wait `grace` seconds for it to come back."""
        self._expected_until = trio.current_time() + grace
        for call in self._calls.values():
            call.scope.deadline = min(call.deadline, self._expected_until)

    async def _run(
        self, name: str, limit: float, arguments: JsonObject, context: ToolContext
    ) -> ToolOutcome:
        now = trio.current_time()
        if name not in self._offered or now >= self._expected_until:
            raise ToolError("the client that runs this tool is not connected")
        assert context.session is not None
        core = host_of(context.session).core
        call = _Call(core, name, arguments, context.tool_call, now + limit)
        key = (context.session.id, call.item)
        self._calls[key] = call
        try:
            with call.scope:
                call.scope.deadline = min(call.deadline, self._expected_until)
                await call.done.wait()
            outcome = call.outcome or ToolOutcome.error(
                f"the client gave no result within {limit:g} s"
                if trio.current_time() >= call.deadline
                else "the client that runs this tool has disconnected"
            )
            call.close("failed" if outcome.is_error else "completed", outcome.content)
            return outcome
        finally:
            del self._calls[key]
            call.close("cancelled", [])


class _Call:
    """One call, from its item's opening to its end. Raises `ToolError` if its turn is over."""

    def __init__(
        self,
        core: SessionCore,
        name: str,
        arguments: JsonObject,
        agent_call: str | None,
        deadline: float,
    ) -> None:
        conversation = core.conversation
        self.name = name
        self.deadline = deadline
        self.scope = trio.CancelScope()
        self._core = core
        # Some agents say which call of theirs this is; else it gets an item beside the agent's.
        known = agent_call is not None and conversation.items.open_call(agent_call) is not None
        self._id = agent_call if known and agent_call else conversation.new_id("client")
        self._agents = known
        self.done = trio.Event()
        self.outcome: ToolOutcome | None = None
        with core:
            item = conversation.call_client(
                ToolCalled(
                    id=self._id,
                    opens=not self._agents,
                    name=name,
                    title=name,
                    owner="client",
                    input=arguments,
                    status="waiting",
                )
            )
        if item is None:
            raise ToolError("the turn is over")
        self.item = item
        core.touch()

    def end(self, outcome: ToolOutcome) -> None:
        self.outcome = outcome
        self.done.set()

    def close(self, status: ItemStatus, content: list[Block]) -> None:
        """Say how it ended, unless its turn's end has done so. Idempotent."""
        items = self._core.conversation.items
        if items.open_call(self._id) != self.item:
            return
        with self._core:
            if self._agents:
                items.tool_called(ToolCalled(id=self._id, status="running"))  # the agent closes it
            else:
                shown: list[ToolContent] = [ToolText(block) for block in content]
                items.tool_called(ToolCalled(id=self._id, status=status, content=shown))
        self._core.touch()
