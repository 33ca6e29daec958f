"""Telemetry: spans, metrics and log records about sessions."""

from ._core.logging import LogContext, log_context
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
    # log records
    "LogContext",
    "log_context",
]
