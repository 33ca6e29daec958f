"""Telemetry: spans, metrics, audit logs and log records about sessions."""

from ._core.logging import LOG_FIELDS, LogContext, log_context
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
