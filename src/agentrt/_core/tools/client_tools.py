"""Tools that a client runs, for example in the user's browser.

To the agent they are normal in-process tools. A call is shown as a tool item with the owner
`client` and waits for that client's result. It also ends when the turn is cancelled, at a deadline,
and when the client has disconnected and does not return.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import trio

from ..errors import ToolError
from ..model.content import Block, JsonObject, ToolContent, ToolText
from ..model.driver import ToolCalled
from ..model.events import ItemStatus
from ..session.core import SessionCore
from ..session.session import host_of
from ..wire.mcp import ToolOutcome
from .tools import Tool, ToolContext


class ClientTool(Tool, frozen=True):
    """A tool that a client runs. A client that reopens the session provides its own."""


class ClientTools:
    """The tools of one client in all sessions, and the calls waiting for its results."""

    def __init__(self) -> None:
        """Begin without tools; the client has never disconnected."""
        self._offered: frozenset[str] = frozenset()
        self._calls: dict[tuple[str, str], _ClientCall] = {}
        self._expected_until = math.inf
        """Time at which a disconnected client counts as gone."""

    def offer(self, names: Iterable[str]) -> None:
        """Set the tools that the connected client runs; calls of other tools fail immediately."""
        self._offered = frozenset(names)
        self._expected_until = math.inf
        for call in self._calls.values():
            call.scope.deadline = call.deadline
            if call.name not in self._offered and call.outcome is None:
                call.end(ToolOutcome.error("the client no longer runs this tool"))

    def make(
        self, name: str, description: str, input_schema: JsonObject, *, deadline: float
    ) -> Tool:
        """Create a tool that waits for this client, at most `deadline` seconds.

        Raises `ValueError` for an invalid tool name.
        """
        return ClientTool(name, description, input_schema, partial(self._run, name, deadline))

    def finish(self, session: str, item: str, content: list[Block], *, error: bool) -> bool:
        """Set the client's result of a call. Returns False if no such call waits for this
        client.
        """
        if not self.waits(session, item):
            return False
        self._calls[session, item].end(ToolOutcome(content, is_error=error))
        return True

    @property
    def expected(self) -> bool:
        """True if the client is connected."""
        return self._expected_until == math.inf

    @property
    def waiting(self) -> bool:
        """True if a call in any session waits for this client."""
        return bool(self._calls)

    def waits(self, session: str, item: str | None = None) -> bool:
        """Return True if this call, or any call if `item` is None, waits for this client."""
        return any(
            call.outcome is None and of == session and item in (None, id)
            for (of, id), call in self._calls.items()
        )

    def disconnect(self, grace: float) -> None:
        """Note that the client has disconnected: its calls wait `grace` seconds for its return."""
        self._expected_until = trio.current_time() + grace
        for call in self._calls.values():
            call.scope.deadline = min(call.deadline, self._expected_until)

    async def _run(
        self, name: str, limit: float, arguments: JsonObject, context: ToolContext
    ) -> ToolOutcome:
        """Have the client run one of its tools, and return its result.

        `limit` is in seconds. A client that disconnects ends the call at the end of the time in
        which it may come back. Raises `ToolError` if the client is not connected now.
        """
        now = trio.current_time()
        if name not in self._offered or now >= self._expected_until:
            raise ToolError("the client that runs this tool is not connected")
        assert context.session is not None
        core = host_of(context.session).core
        call = _ClientCall(core, name, arguments, context.tool_call, now + limit)
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


class _ClientCall:
    """One call, from the opening of its item to its end. Raises `ToolError` if its turn is over."""

    def __init__(
        self,
        core: SessionCore,
        name: str,
        arguments: JsonObject,
        agent_call: str | None,
        deadline: float,
    ) -> None:
        """Show the call as waiting, in the item of the agent's own call if that is known."""
        conversation = core.conversation
        self.name = name
        self.deadline = deadline
        self.scope = trio.CancelScope()
        self._core = core
        # If the agent reports its id of the call, its own item is used, otherwise an additional
        # one.
        known = agent_call is not None and conversation.items.open_call(agent_call) is not None
        self._id = agent_call if known and agent_call else conversation.new_id("client")
        self._agents = known
        self.done = trio.Event()
        self.outcome: ToolOutcome | None = None
        with core.step():
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
        core.reset_idle_timer()

    def end(self, outcome: ToolOutcome) -> None:
        """Set the outcome, and wake the waiting call."""
        self.outcome = outcome
        self.done.set()

    def close(self, status: ItemStatus, content: list[Block]) -> None:
        """Record the end of the call, unless the end of its turn has done so. Idempotent."""
        items = self._core.conversation.items
        if items.open_call(self._id) != self.item:
            return
        with self._core.step():
            if self._agents:
                items.tool_called(ToolCalled(id=self._id, status="running"))  # the agent closes it
            else:
                shown: list[ToolContent] = [ToolText(block) for block in content]
                items.tool_called(ToolCalled(id=self._id, status=status, content=shown))
        self._core.reset_idle_timer()
