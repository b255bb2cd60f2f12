"""A small MCP server written by hand, without any SDK, that speaks as Solon AI (on the MCP Java SDK) does.

What matters is the form of its list: ``annotations.returnDirect``, a boolean that the typed models of other SDKs drop.
It speaks over stdio (``python solon_wire.py``), and over streamable HTTP (`solon_over_http`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

PROTOCOL = "2025-06-18"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
ORDER = {
    "type": "object",
    "properties": {"orderId": {"type": "string", "description": "订单号"}},
    "required": ["orderId"],
    "additionalProperties": False,
}


def _tool(name: str, description: str, annotations: dict[str, Any]) -> dict[str, Any]:
    hints = {
        "title": name,
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    return {"name": name, "description": description, "inputSchema": ORDER, "annotations": {**hints, **annotations}}


TOOLS = [
    _tool("queryOrder", "查询订单", {"returnDirect": True}),
    _tool("queryRefund", "查询退款", {"returnDirect": False}),
    _tool("drawOrder", "A picture of an order, between two texts", {"returnDirect": True}),
    _tool("failOrder", "Fails", {"returnDirect": True}),
    _tool("oddOrder", "Its flag is no flag", {"returnDirect": 1}),
    _tool("plainOrder", "It has no flag", {}),
]


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a JSON-RPC message; None for a notification."""
    if "id" not in message:
        return None
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        result: dict[str, Any] = {
            "protocolVersion": PROTOCOL,
            "capabilities": {"logging": {}, "tools": {"listChanged": True}},
            "serverInfo": {"name": "solon-demo", "version": "1.0.0"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = _call(params["name"], params.get("arguments") or {})
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": f"Method not found: {method}"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "text", "text": f"{name} {arguments['orderId']}: 已发货"}
    if name == "drawOrder":
        image = {"type": "image", "data": PNG, "mimeType": "image/png"}
        return {"content": [text, image, {"type": "text", "text": "That was it."}], "isError": False}
    return {"content": [text], "isError": name == "failOrder"}


def serve_stdio() -> None:
    """Answer line by line until the input ends."""
    for line in sys.stdin.buffer:
        reply = answer(json.loads(line))
        if reply is not None:
            sys.stdout.buffer.write(json.dumps(reply, ensure_ascii=False).encode() + b"\n")
            sys.stdout.buffer.flush()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The ASGI app: a session by header, lists as JSON, results of calls as an event stream, as the Java SDK does."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    headers = [(b"mcp-session-id", b"session-1")]
    if scope["method"] != "POST":
        await _send(send, 200 if scope["method"] == "DELETE" else 405, headers, b"")
        return
    message = json.loads(body)
    session = dict(scope["headers"]).get(b"mcp-session-id")
    if session != b"session-1" and message.get("method") != "initialize":
        await _send(
            send, 400, [(b"content-type", b"application/json")], b'{"code": -32600, "message": "Session ID missing"}'
        )
        return
    reply = answer(message)
    if reply is None:
        await _send(send, 202, headers, b"")
        return
    data = json.dumps(reply, ensure_ascii=False).encode()
    if message["method"] == "tools/call":
        kind, data = b"text/event-stream", b"id: 1\nevent: message\ndata: " + data + b"\n\n"
    else:
        kind = b"application/json"
    await _send(send, 200, [*headers, (b"content-type", kind)], data)


async def _send(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def solon_over_http() -> Iterator[str]:
    """The URL of the running server; it runs in a thread of its own."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
            assert thread.is_alive()
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join(10)


if __name__ == "__main__":
    serve_stdio()
