"""What sees a session: the part of telemetry that a session knows, and several as one."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol, TypeAlias

from .._model.content import JsonObject
from .._model.events import Event
from .._model.log import Log

if TYPE_CHECKING:
    from .._journal.store import Store


class Observation:
    """Sees one session. The methods are called in its path: they do not wait, and do not raise."""

    def prompting(self, turn: str, context: contextvars.Context | None) -> JsonObject | None:
        """A prompt is about to be sent; its handlers will run in `context`. Returns what is to
        travel with it."""
        return None

    def unsent(self, turn: str) -> None:
        """It could not be sent: there is no such turn."""

    def events(self, events: list[Event], size: int) -> None:
        """A batch of events, made of messages of so many bytes."""

    def calling(
        self, tool: str, call: str | None, meta: JsonObject
    ) -> AbstractContextManager[object]:
        """Around a call of one of the program's own tools. `call` is the agent's id for it, where
        it gives one, and `meta` what travelled with it."""
        return nullcontext()

    def close(self) -> None:
        """The session is over."""


class Telemetry(Protocol):
    """What `telemetry` may be: `OpenTelemetry` or `Metrics`."""

    def observe(self, agent: str, log: Log) -> Observation:
        """A session of that agent begins."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables for an agent's process that is started now."""
        ...

    def keeps(self, store: Store) -> None:
        """Sessions are kept in that store."""
        ...


Telemetries: TypeAlias = "Telemetry | Sequence[Telemetry]"


class _Together(Observation):
    def __init__(self, parts: Sequence[Observation]) -> None:
        self._parts = parts

    def prompting(self, turn: str, context: contextvars.Context | None) -> JsonObject | None:
        found = [part.prompting(turn, context) for part in self._parts]
        return {k: v for each in found if each for k, v in each.items()} or None

    def unsent(self, turn: str) -> None:
        for part in self._parts:
            part.unsent(turn)

    def events(self, events: list[Event], size: int) -> None:
        for part in self._parts:
            part.events(events, size)

    @contextmanager
    def calling(self, tool: str, call: str | None, meta: JsonObject) -> Iterator[None]:
        with ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(part.calling(tool, call, meta))
            yield

    def close(self) -> None:
        for part in self._parts:
            part.close()


class _All:
    """Several as one."""

    def __init__(self, parts: Sequence[Telemetry]) -> None:
        self._parts = parts

    def observe(self, agent: str, log: Log) -> Observation:
        return _Together([part.observe(agent, log) for part in self._parts])

    def environment(self) -> Mapping[str, str]:
        return {k: v for part in self._parts for k, v in part.environment().items()}

    def keeps(self, store: Store) -> None:
        for part in self._parts:
            part.keeps(store)


def as_one(given: Telemetries) -> Telemetry:
    """What somebody gave as `telemetry`. Raises `TypeError` for what is none."""
    parts: list[Telemetry] = list(given) if isinstance(given, Sequence) else [given]
    for part in parts:
        if isinstance(part, type) or not callable(getattr(part, "observe", None)):
            what = part.__name__ if isinstance(part, type) else type(part).__name__
            raise TypeError(
                f"telemetry is agentrt.OpenTelemetry() or agentrt.Metrics(), or both, not {what}"
            )
    return parts[0] if len(parts) == 1 else _All(parts)
