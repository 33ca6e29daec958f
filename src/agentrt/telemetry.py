"""Telemetry: spans, metrics, audit logs and log records about sessions.

Pass one or several objects as `telemetry` to `open_session` or `open_runtime`:

- `OpenTelemetry` makes spans of turns, tool calls and permission requests, through the API of
  OpenTelemetry. The program's SDK decides where they go.
- `Metrics` counts for Prometheus; `agentrt.web.serve` can serve it.
- `AuditLog` appends requests, decisions and actions to a file, a line each; `read_audit` reads it.
- Any object with the methods of `Telemetry` observes sessions in another way. Its `Observation` is
  called synchronously with the events, so it must not wait.

`LogContext` adds the session and turn to the program's own log records, for code that runs on
behalf of a session, such as a tool.

None of it is imported unless it is used, and a session without `telemetry` does no work for it.
"""

from ._core.logging import LOG_FIELDS, LogContext, log_context
from ._core.session.interfaces import ViewerAction
from ._core.telemetry.audit import AuditKind, AuditLog, AuditRecord, read_audit
from ._core.telemetry.metrics import Metrics
from ._core.telemetry.observation import Observation, Telemetries, Telemetry
from ._core.telemetry.otel import OpenTelemetry

__all__ = [
    # spans and metrics
    "OpenTelemetry",
    "Metrics",
    "Telemetry",
    "Telemetries",
    "Observation",
    "ViewerAction",
    # audit logs
    "AuditLog",
    "AuditRecord",
    "AuditKind",
    "read_audit",
    # log records
    "LogContext",
    "log_context",
    "LOG_FIELDS",
]
