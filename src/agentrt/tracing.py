"""Traces: files with everything that goes over the wire to and from an agent."""

from ._core.trace.conversation import TraceConversation, TraceRow
from ._core.trace.messages import TraceMessage
from ._core.trace.record import TraceKind, TraceReader, TraceRecord, read_trace
from ._core.trace.redact import REDACTED
from ._core.trace.subscription import RecentWire, TraceSubscription, WireMessage, WireSubscription
from ._core.trace.trace import Trace, open_trace

__all__ = [
    # writing a trace
    "open_trace",
    "Trace",
    # reading the wire
    "TraceRecord",
    "TraceKind",
    "TraceSubscription",
    "WireMessage",
    "WireSubscription",
    "REDACTED",
    # reading a file
    "read_trace",
    "TraceReader",
    # showing the messages
    "TraceConversation",
    "TraceRow",
    "TraceMessage",
    "RecentWire",
]
