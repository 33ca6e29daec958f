"""Telemetry: spans, metrics and log records about sessions."""

from ._logging import LogContext, log_context
from ._telemetry.metrics import Metrics
from ._telemetry.observation import Observation, Telemetries, Telemetry
from ._telemetry.otel import OpenTelemetry

__all__ = [
    # spans and metrics
    "OpenTelemetry",
    "Metrics",
    "Telemetry",
    "Telemetries",
    "Observation",
    # log records
    "LogContext",
    "log_context",
]
