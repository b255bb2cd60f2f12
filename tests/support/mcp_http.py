"""HTTP servers in a thread of this process, by hand: one that answers as a test says, and so notes who asked."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], Any]
"""Status, headers, and the body: text and bytes as they are, anything else as JSON."""
Handle = Callable[[str, str, dict[str, str], Any], Answer]
"""``handle(method, path, headers, message)``."""


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


class HttpServer:
    """``url`` is where it listens, ``seen`` what was asked: method and path."""

    def __init__(self, handle: Handle, port: int = 0) -> None:
        self.seen: list[tuple[str, str]] = []
        self._open: set[socket.socket] = set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                server._open.add(self.connection)

            def finish(self) -> None:
                server._open.discard(self.connection)
                super().finish()

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _answer(self) -> None:
                server.seen.append((self.command, self.path))
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {key.lower(): value for key, value in self.headers.items()}
                status, answered, content = handle(self.command, self.path, headers, json.loads(body) if body else None)
                data = content if isinstance(content, bytes) else _text(content).encode()
                try:
                    self.send_response(status)
                    for name, value in {"content-type": "application/json", **answered}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # who asked has gone

            do_GET = do_POST = do_DELETE = do_HEAD = _answer

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()


@contextmanager
def serving(handle: Handle, port: int = 0) -> Iterator[HttpServer]:
    server = HttpServer(handle, port)
    try:
        yield server
    finally:
        server.close()


class LegacyMcp:
    """An MCP server of before 2026 over HTTP with sessions; what it answers can be changed while it runs."""

    def __init__(self, tools: list[dict[str, Any]], result: Any = None) -> None:
        self.tools = tools
        self.result = result or {"content": [{"type": "text", "text": "done"}]}
        self.session = "s1"
        self.calls = 0
        self.status: dict[str, int] = {}
        """By method of the protocol: the status that it is answered with."""

    def __call__(self, method: str, path: str, headers: dict[str, str], message: Any) -> Answer:
        if method != "POST":
            return (405, {}, "") if method == "GET" else (200, {}, "")
        name = message["method"]
        if name in self.status:
            return self.status[name], {}, "no"
        if "id" not in message:
            return 202, {}, ""
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if name == "initialize":
            found: Any = {
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "legacy", "version": "1"},
            }  # fmt: skip
            return 200, {"mcp-session-id": self.session}, {**answer, "result": found}
        if name == "server/discover":
            return 200, {}, {**answer, "error": {"code": -32601, "message": "Method not found"}}
        if headers.get("mcp-session-id") != self.session:
            return 404, {}, {**answer, "error": {"code": -32600, "message": "Session not found"}}
        if name == "tools/list":
            return 200, {}, {**answer, "result": {"tools": self.tools}}
        if name == "tools/call":
            self.calls += 1
            return 200, {}, {**answer, "result": self.result}
        return 200, {}, {**answer, "error": {"code": -32601, "message": "Method not found"}}
