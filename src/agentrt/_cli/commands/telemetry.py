"""`agentrt serve --otel`: spans, exported as OpenTelemetry's own variables configure."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from ..._telemetry.otel import OpenTelemetry
from ..setup import UsageError

CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own variable for recording contents."""

_FAREWELL: Final = 5.0
"""Seconds for sending the last spans."""


@asynccontextmanager
async def open_tracing() -> AsyncIterator[OpenTelemetry]:
    """Open the tracing of a server.

    Spans go to the SDK that the process was started with (`opentelemetry-instrument`) or, without
    one, over OTLP. Leaving the block sends the remaining spans, in bounded time.

    Raises `UsageError` if a package is not installed.
    """
    said = os.environ.get(CONTENT, "").lower()
    content = said in ("true", "span_only", "span_and_event")
    spans = OpenTelemetry(content=content)
    from opentelemetry import trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield spans
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--otel: {error.name} is missing, which sends the spans:"
            " pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http,"
            " or start the server with opentelemetry-instrument"
        ) from error
    named = Resource({SERVICE_NAME: "agentrt"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield OpenTelemetry(tracer_provider=provider, content=content)
    finally:
        with trio.move_on_after(_FAREWELL, shield=True):
            await trio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)
