"""A program's OpenTelemetry, and a collector that it sends to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import h11
import trio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

Tree = dict[str, "Tree"]


class Program:
    """What a program that wants spans has set up."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("program")

    def spans(self) -> list[ReadableSpan]:
        """Those that are over, in the order of their beginnings."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans() if span.name == name]
        return found

    def tree(self) -> Tree:
        edges = [
            (span.context.span_id, span.parent.span_id if span.parent else 0, span.name)
            for span in self.spans()
        ]
        return as_tree(edges)


def as_tree(edges: Iterable[tuple[Any, Any, str]]) -> Tree:
    """Names in names, of spans that are given as id, parent's id and name."""
    edges = list(edges)
    inside: dict[Any, Tree] = {id: {} for id, _, _ in edges}
    roots: Tree = {}
    for id, parent, name in edges:
        inside.get(parent, roots)[name] = inside[id]
    return roots


class Collector:
    """Takes what is sent in OTLP over HTTP, as a real one does."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[ExportTraceServiceRequest] = []

    @classmethod
    @asynccontextmanager
    async def listening(cls, port: int = 0) -> AsyncIterator[Collector]:
        collector = cls()
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, collector._serve, port, host="127.0.0.1")
            [listener, *_] = await nursery.start(serve)
            collector.port = listener.socket.getsockname()[1]
            yield collector
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        http, body, path = h11.Connection(h11.SERVER), b"", b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                path, body = event.target, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert path == b"/v1/traces"
                self.requests.append(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                headers = [
                    ("content-type", "application/x-protobuf"),
                    ("content-length", str(len(answer))),
                ]
                parts = (h11.Response(status_code=200, headers=headers), h11.Data(data=answer))
                for part in (*parts, h11.EndOfMessage()):
                    await stream.send_all(http.send(part) or b"")
                http.start_next_cycle()
            else:
                return
