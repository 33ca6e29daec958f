"""Traces: files with everything that goes over the wire to and from an agent."""

from ._core.trace.record import TraceRecord
from ._core.trace.subscription import TraceSubscription
from ._core.trace.trace import Trace, open_trace

__all__ = [
    # writing a trace
    "open_trace",
    "Trace",
    # reading the wire
    "TraceRecord",
    "TraceSubscription",
]
