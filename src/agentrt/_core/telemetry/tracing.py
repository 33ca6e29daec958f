"""The operations of `spans.py`, carried out with the API of OpenTelemetry."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..._version import __version__
from ..logging import get_logger
from ..model.content import JsonObject
from ..model.events import Event
from .observation import Observation
from .spans import Operation, Redact, SpanChange, SpanEnd, SpanEvent, Spans, SpanStart

logger = get_logger("telemetry")

_TRACE: Final = TraceContextTextMapPropagator()
_BAGGAGE: Final = W3CBaggagePropagator()
_KINDS: Final = {"client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_NOTHING: Final = Context()


def carried(context: Context) -> dict[str, str]:
    """Return a context in W3C format: `traceparent`, and `tracestate` and `baggage` if present.
    Empty without a span."""
    carrier: dict[str, str] = {}
    _TRACE.inject(carrier, context)
    if carrier:
        _BAGGAGE.inject(carrier, context)
    return carrier


class SpanTelemetry:
    """Makes the spans of sessions."""

    def __init__(self, provider: TracerProvider | None, redact: Redact | None) -> None:
        """Use a provider, or the program's global one if None."""
        self._tracer = trace.get_tracer("agentrt", __version__, provider)
        self._redact = redact

    def observe(self, agent: str, session: str) -> Traced:
        """Return the observer of a session."""
        return Traced(self._tracer, Spans(agent, session, self._redact))

    def environment(self) -> Mapping[str, str]:
        """Return variables for an agent's process that is started in the current span."""
        return {name.upper(): value for name, value in carried(contexts.get_current()).items()}


class Traced(Observation):
    """The spans of one session."""

    def __init__(
        self, tracer: trace.Tracer, spans: Spans, now: Callable[[], float] = time.time
    ) -> None:
        """Carry out the operations of `spans` with a tracer. `now` returns seconds since 1970."""
        self._tracer = tracer
        self._spans = spans
        self._now = now
        self._open: dict[str, Span] = {}
        self._last: Span | None = None
        """The span of the previous turn."""

    # --- the `Observation` interface

    def prompting(self, turn: str, context: contextvars.Context | None) -> JsonObject | None:
        """Start the span of a turn below the span of the program that sent the prompt.

        The turn's handlers then run in the turn's span. Returns the trace context for the agent.
        """
        outer = _NOTHING if context is None else context.run(contexts.get_current)
        span = self._start(self._spans.turn(turn, self._now()), outer)
        inner = trace.set_span_in_context(span, outer)
        if context is not None:
            context.run(contexts.attach, inner)  # the copy of the context for this turn
        return carried(inner) or None

    def unsent(self, turn: str) -> None:
        self._carry_out([self._spans.unsent(turn, self._now())])

    def events(self, events: list[Event], size: int) -> None:
        """Carry out the operations for a batch. An error of the program's function is only
        logged.
        """
        try:
            operations = self._spans.fold(events, self._now())
        except Exception:  # from a `content` function of the program, not a defect of the session
            logger.exception("the spans of a session are incomplete")
        else:
            if operations:
                self._carry_out(operations)

    @contextmanager
    def calling(self, tool: str, call: str | None, meta: JsonObject) -> Iterator[None]:
        """Run a tool of the program in the span of its call."""
        key = self._spans.call_of(tool, call)
        own: Span | None = None
        span = self._open.get(key) if key is not None else None
        if span is None:
            span = own = self._start_call(tool, meta)
        token = contexts.attach(trace.set_span_in_context(span))
        try:
            yield
        finally:
            contexts.detach(token)
            if own is not None:
                own.end(int(self._now() * 1e9))

    def close(self) -> None:
        self._carry_out(self._spans.close(self._now()))

    # --- spans

    def _start_call(self, tool: str, meta: JsonObject) -> Span:
        """Start a span for a call that cannot be matched to one of the agent's tool calls: below
        the agent's own span, if it sent one along, or else below the turn."""
        carrier = {name: value for name, value in meta.items() if isinstance(value, str)}
        outer = _TRACE.extract(carrier, _NOTHING)
        kind = SpanKind.SERVER
        if not trace.get_current_span(outer).get_span_context().is_valid:
            running = self._open.get(self._spans.running or "")
            outer = _NOTHING if running is None else trace.set_span_in_context(running)
            kind = SpanKind.INTERNAL
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
        }
        start = int(self._now() * 1e9)
        return self._tracer.start_span(f"execute_tool {tool}", outer, kind, attributes, None, start)

    def _start(self, start: SpanStart, outer: Context) -> Span:
        """Start a span, and return it.

        The span of a turn is linked to that of the turn before, unless the program gives it a
        parent.
        """
        parent = self._open.get(start.parent) if start.parent is not None else None
        context = outer if parent is None else trace.set_span_in_context(parent, _NOTHING)
        links = None
        if start.kind == "client":
            if outer is _NOTHING and self._last is not None:
                links = [Link(self._last.get_span_context())]
        span = self._tracer.start_span(
            start.name,
            context,
            _KINDS[start.kind],
            start.attributes,
            links,
            int(start.at * 1e9),
        )
        if start.kind == "client":
            self._last = span
        self._open[start.key] = span
        return span

    def _carry_out(self, operations: list[Operation]) -> None:
        """Carry out operations on spans. Those on a span that is not open are ignored.

        Times of operations are in seconds, those of OpenTelemetry in nanoseconds.
        """
        for operation in operations:
            if type(operation) is SpanStart:
                self._start(operation, _NOTHING)
                continue
            span = self._open.get(operation.key)
            if span is None:
                continue
            if type(operation) is SpanEnd:  # no `match`: it would read each field, at every turn
                del self._open[operation.key]
                if operation.attributes:
                    span.set_attributes(operation.attributes)
                if operation.error is not None:
                    span.set_attribute("error.type", operation.error)
                    span.set_status(Status(StatusCode.ERROR, operation.why or None))
                span.end(int(operation.at * 1e9))
            elif type(operation) is SpanChange:
                span.set_attributes(operation.attributes)
                if operation.name:
                    span.update_name(operation.name)
            elif type(operation) is SpanEvent:
                span.add_event(operation.name, operation.attributes, int(operation.at * 1e9))
