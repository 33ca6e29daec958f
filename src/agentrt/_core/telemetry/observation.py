"""The interface between sessions and telemetry, and several observers combined into one."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..model.content import JsonObject
from ..model.events import Event
from ..model.log import Log
from ..session.interfaces import ViewerAction

if TYPE_CHECKING:
    from ..store.store import Store


class Observation:
    """Observes one session. Its methods are called synchronously: they must not wait or raise."""

    def prompting(self, turn: str, context: contextvars.Context | None) -> JsonObject | None:
        """Handle a prompt before it is sent; its handlers will run in `context`. Returns data to
        send along with the prompt."""
        return None

    def unsent(self, turn: str) -> None:
        """Handle a prompt that could not be sent: the turn does not exist."""

    def events(self, events: list[Event], size: int) -> None:
        """Process a batch of events, made from agent messages of `size` bytes."""

    def acted(self, action: ViewerAction) -> None:
        """Process a change that a viewer made to the session."""

    def calling(
        self, tool: str, call: str | None, meta: JsonObject
    ) -> AbstractContextManager[object]:
        """Wrap a call of one of the program's own tools. `call`: the agent's id for it, if it gives
        one; `meta`: the metadata that came with it."""
        return nullcontext()

    def close(self) -> None:
        """Handle the end of the session."""


class Telemetry(Protocol):
    """The interface of `telemetry` arguments: `OpenTelemetry` or `Metrics`."""

    def observe(self, agent: str, log: Log) -> Observation:
        """Return the observer of a new session of an agent."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Return variables for an agent's process that is started now."""
        ...

    def keeps(self, store: Store) -> None:
        """Register a store of sessions."""
        ...

    def acted(self, agent: str, session: str, action: ViewerAction) -> None:
        """Process a change that a viewer made to a session that is only stored."""
        ...


Telemetries: TypeAlias = "Telemetry | Sequence[Telemetry]"
"""One telemetry object, or several."""


class _Together(Observation):
    """Several observations as one."""

    def __init__(self, parts: Sequence[Observation]) -> None:
        """Combine the observations of one session."""
        self._parts = parts

    def prompting(self, turn: str, context: contextvars.Context | None) -> JsonObject | None:
        """Ask all, and merge the data that they send along."""
        found = [part.prompting(turn, context) for part in self._parts]
        return {k: v for each in found if each for k, v in each.items()} or None

    def unsent(self, turn: str) -> None:
        for part in self._parts:
            part.unsent(turn)

    def events(self, events: list[Event], size: int) -> None:
        for part in self._parts:
            part.events(events, size)

    def acted(self, action: ViewerAction) -> None:
        for part in self._parts:
            part.acted(action)

    @contextmanager
    def calling(self, tool: str, call: str | None, meta: JsonObject) -> Iterator[None]:
        """Enter the blocks of all, in order."""
        with ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(part.calling(tool, call, meta))
            yield

    def close(self) -> None:
        for part in self._parts:
            part.close()


class _All:
    """Several telemetries as one."""

    def __init__(self, parts: Sequence[Telemetry]) -> None:
        """Combine several telemetries."""
        self._parts = parts

    def observe(self, agent: str, log: Log) -> Observation:
        return _Together([part.observe(agent, log) for part in self._parts])

    def environment(self) -> Mapping[str, str]:
        """Merge the variables of all; the last one wins."""
        return {k: v for part in self._parts for k, v in part.environment().items()}

    def keeps(self, store: Store) -> None:
        for part in self._parts:
            part.keeps(store)

    def acted(self, agent: str, session: str, action: ViewerAction) -> None:
        for part in self._parts:
            part.acted(agent, session, action)


def as_one(given: Telemetries) -> Telemetry:
    """Combine `telemetry` arguments into one. Raises `TypeError` for other values."""
    parts: list[Telemetry] = list(given) if isinstance(given, Sequence) else [given]
    for part in parts:
        if isinstance(part, type) or not callable(getattr(part, "observe", None)):
            what = part.__name__ if isinstance(part, type) else type(part).__name__
            raise TypeError(
                f"telemetry must be an OpenTelemetry or Metrics instance from agentrt.telemetry, or"
                f" a list of both; got {what}"
            )
    return parts[0] if len(parts) == 1 else _All(parts)
