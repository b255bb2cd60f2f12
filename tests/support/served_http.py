"""Tools served over HTTP on a real port, and the requests of a test as they go over the wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from advisorchain.mcp import serve_tools

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


@asynccontextmanager
async def serving(*tools: Any, **settings: Any) -> AsyncIterator[str]:
    """The URL of a running server of these tools."""
    async with anyio.create_task_group() as group:
        serve = partial(serve_tools, list(tools), transport="http", **{"port": 0, **settings})
        url = await group.start(serve)
        try:
            yield url
        finally:
            group.cancel_scope.cancel()


@asynccontextmanager
async def connected(url: str, mode: str, token: str | None = None) -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def raw(url: str, protocol: str, method: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
    """One request as it goes over the wire; the answer's JSON, or the HTTP response when it is none."""
    sent = {
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": protocol, "Mcp-Method": method,
        **(headers or {}),
    }  # fmt: skip
    if "name" in params:
        sent["Mcp-Name"] = params["name"]
    meta = {
        "io.modelcontextprotocol/protocolVersion": protocol,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    if protocol == MODERN:
        params["_meta"] = meta
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(url, json=body, headers=sent)
    if answer.status_code != 200:
        return answer
    if answer.headers["content-type"].startswith("text/event-stream"):
        data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        return json.loads(data[-1]) | {"session": answer.headers.get("mcp-session-id")}
    return answer.json() | {"session": answer.headers.get("mcp-session-id")}
