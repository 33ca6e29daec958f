"""Traces: files with everything that goes over the wire to and from an agent.

A trace is written by `open_trace`: pass it as `trace` to sessions or a runtime. It has each line in
both directions with its time, and the start and the exit of each process. Values that look like
secrets are replaced before anything is written. It never delays a session: records that cannot be
written are counted and left out.

Without a file, `Session.trace()` and `Session.wire()` return subscriptions to the messages of a
running session, as raw records or decoded.

`read_trace` reads a file again, and `TraceConversation` joins its records to rows in which requests
are paired with their answers, as `agentrt trace show` prints them. `agentrt.testing.replay` plays a
trace as an agent.
"""

from ._core.process.tap import TraceKind
from ._core.trace.conversation import TraceConversation, TraceRow
from ._core.trace.messages import TraceMessage
from ._core.trace.record import (
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
