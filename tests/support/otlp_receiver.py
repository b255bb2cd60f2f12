"""A server that takes traces over OTLP/HTTP and decodes them, as a collector does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span


class OtlpReceiver:
    """What has arrived: requests by path, and their spans."""

    def __init__(self, status: int = 200, answers_after: float = 0.0) -> None:
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.resources: list[ResourceSpans] = []
        self.url = ""
        self._status = status
        self._answers_after = answers_after

    @property
    def spans(self) -> list[Span]:
        """Every span that has arrived."""
        return [span for resource in self.resources for scope in resource.scope_spans for span in scope.spans]

    @property
    def services(self) -> set[str]:
        """The names of the services that sent them."""
        return {
            attribute.value.string_value
            for resource in self.resources
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }

    @contextmanager
    def serve(self) -> Iterator[OtlpReceiver]:
        """Listen on a free port of this machine."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sleep(receiver._answers_after)
                receiver.paths.append(self.path)
                receiver.headers.append(dict(self.headers))
                if receiver._status == 200:
                    receiver.resources += ExportTraceServiceRequest.FromString(body).resource_spans
                self.send_response(receiver._status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5)
