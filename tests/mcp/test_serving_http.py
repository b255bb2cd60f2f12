"""Served over HTTP on a real port: the wire itself, and how it begins and ends."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp import Client
from served_http import LEGACY, MODERN, connected, raw, serving
from served_tools import receipt, total
from starlette.applications import Starlette
from starlette.routing import Mount

from advisorchain import ConfigurationError, ToolRegistry, tool
from advisorchain.mcp import mcp_app, serve_tools
from advisorchain.mcp.http_app import serve_http


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """uvicorn runs on asyncio."""
    return "asyncio"


async def test_both_eras_list_and_call(mode: str) -> None:
    seen: list[Any] = []

    async def on_progress(*report: Any) -> None:
        seen.append(report)

    async with serving(receipt, total) as url, connected(url, mode) as client:
        listed = (await client.list_tools()).tools
        result = await client.call_tool("total", {"order": 3}, progress_callback=on_progress)

    assert [each.name for each in listed] == ["receipt", "total"]
    assert result.structured_content == {"order": 3, "client": None}
    assert seen == [(1, 2, "half")]


async def test_return_direct_is_on_the_wire_in_all_three_forms_modern() -> None:
    async with serving(receipt, total) as url:
        answer = await raw(url, MODERN, "tools/list")

    first, second = answer["result"]["tools"]
    assert first["annotations"] == {"readOnlyHint": True, "returnDirect": True}
    assert first["_meta"] == {"advisorchain/returnDirect": True, "returnDirect": True}
    assert "annotations" not in second
    assert "_meta" not in second


async def test_return_direct_is_on_the_wire_in_all_three_forms_legacy() -> None:
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    async with serving(receipt, total) as url:
        begun = await raw(url, LEGACY, "initialize", **hello)
        answer = await raw(url, LEGACY, "tools/list", {"Mcp-Session-Id": begun["session"]})

    first, second = answer["result"]["tools"]
    assert first["annotations"] == {"readOnlyHint": True, "returnDirect": True}
    assert first["_meta"] == {"advisorchain/returnDirect": True, "returnDirect": True}
    assert "returnDirect" not in json.dumps(second)


async def test_a_call_that_is_cancelled_over_http_is_cancelled_here(mode: str) -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    async with serving(wait) as url, connected(url, mode) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "wait", {})
            with anyio.fail_after(10):
                await started.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await ended.wait()


async def test_two_clients_at_once(mode: str) -> None:
    async with serving(total) as url, connected(url, mode) as first, connected(url, mode) as second:
        results: list[Any] = []

        async def call(client: Client, order: int) -> None:
            results.append((await client.call_tool("total", {"order": order})).structured_content["order"])

        async with anyio.create_task_group() as group:
            for order in range(20):
                group.start_soon(call, first if order % 2 else second, order)

    assert sorted(results) == list(range(20))


async def test_a_legacy_client_is_told_of_changes_over_http() -> None:
    registry = ToolRegistry([receipt])
    told = anyio.Event()

    async def on_message(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    async with serving(registry) as url, Client(url, mode="legacy", message_handler=on_message) as client:
        await client.list_tools()
        await anyio.sleep(0.3)  # until the client's stream of notifications is open
        registry.register(total)
        with anyio.fail_after(10):
            await told.wait()


# Beginning and end ---------------------------------------------------------------------------------------------------


async def test_a_port_in_use_is_a_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"Cannot listen on 127.0.0.1 port {port}"):
            await serve_tools([total], transport="http", port=port)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"transport": "sse"}, "'stdio' or 'http'"),
        ({"transport": "http", "path": "mcp"}, "begin with '/'"),
        ({"transport": "http", "allowed_hosts": "localhost"}, "takes a list"),
        ({"transport": "http", "token_verifier": 3}, "verify_token"),
        ({"transport": "stdio", "token_verifier": lambda token: True}, "over stdio"),
    ],
)
async def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        await serve_tools([total], port=0, **settings)


async def test_cancelled_it_ends_soon_and_quietly_although_a_client_listens(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    ended = anyio.Event()

    async def serve(task_status: Any) -> None:
        try:
            await serve_tools([ToolRegistry([total])], transport="http", port=0, task_status=task_status)
        finally:
            ended.set()

    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def scoped(task_status: Any) -> None:
            with scope:
                await serve(task_status)

        url = await group.start(scoped)
        async with connected(url, mode) as client:
            await client.list_tools()
            with anyio.fail_after(10):
                scope.cancel()
                await ended.wait()
        with pytest.raises(httpx2.ConnectError):
            await raw(url, MODERN, "tools/list")

    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR and "uvicorn" in record.name]


async def test_the_app_runs_inside_another_app(mode: str) -> None:
    inner = mcp_app([receipt], path="/tools")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    outer = Starlette(routes=[Mount("/mcp", inner)], lifespan=lifespan)
    async with anyio.create_task_group() as group:
        url = await group.start(partial(_serve_app, outer))
        async with connected(url + "/mcp/tools", mode) as client:
            result = await client.call_tool("receipt", {"order": 9})
        group.cancel_scope.cancel()

    assert result.content[0].text == "Receipt of order 9."


async def _serve_app(app: Starlette, task_status: Any) -> None:
    await serve_http(app, "127.0.0.1", 0, "", task_status)


def test_serving_leaves_signal_handlers_alone() -> None:
    import signal

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    async def main() -> None:
        async with serving(receipt) as url:
            await raw(url, MODERN, "tools/list")
            seen.append((signal.getsignal(signal.SIGTERM), uvicorn.Server))

    anyio.run(main)

    assert seen[0][0] == before[0]
    assert signal.getsignal(signal.SIGINT) == before[1]


def test_http_under_trio_is_refused() -> None:
    async def main() -> None:
        await serve_tools([receipt], transport="http", port=0)

    with pytest.raises(ConfigurationError, match="asyncio"):
        anyio.run(main, backend="trio")
