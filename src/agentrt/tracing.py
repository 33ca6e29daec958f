"""Traces: files with everything that goes over the wire to and from an agent."""

from ._core.trace.conversation import TraceConversation, TraceRow
from ._core.trace.messages import TraceMessage
from ._core.trace.record import (
    TraceKind,
    TraceReader,
    TraceRecord,
    open_trace_file,
    read_trace,
    trace_files,
)
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
    "trace_files",
    "open_trace_file",
    # showing the messages
    "TraceConversation",
    "TraceRow",
    "TraceMessage",
    "RecentWire",
]
