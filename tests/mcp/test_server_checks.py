"""Settings of an `McpServer` that make no sense are refused when it is made, and no secret is repeated."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_client import raw, result_of
from mcp_http import LegacyMcp, serving

from advisorchain import ChatClient, ConfigurationError, ToolCall, ToolMessage
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel

URL = "https://shop.example.com/mcp"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trusted": "no"}, "trusted must be True or False (is 'no')"),
        ({"instructions": 1}, "instructions must be True or False"),
        ({"max_tools": True}, "max_tools must be an int of at least 1"),
        ({"list_ttl": "300"}, "list_ttl must be over 0 seconds, or None"),
        ({"connect_timeout": float("nan")}, "connect_timeout must be over 0 seconds (is nan)"),
        ({"roots": "/srv"}, "roots must be a list of paths (is '/srv')"),
        ({"meta": ["tenant"]}, "meta must be context keys by the key of _meta"),
        ({"meta": {"tenant": 5}}, "meta must be context keys by the key of _meta"),
        ({"elicitation": True}, "elicitation must be an async function"),
        ({"sampling": ChatClient(ScriptedModel([]))}, "sampling must be Sampling(client)"),
        ({"overrides": {"add": True}}, "overrides must be settings by tool"),
        ({"overrides": {"add": {"timeout": "5"}}}, "overrides of 'add': timeout must be over 0 seconds"),
        ({"overrides": {"add": {"return_direct": "yes"}}}, "overrides of 'add': return_direct must be True or False"),
        ({"overrides": {"add": {"read_only": "yes"}}}, "overrides of 'add': read_only must be True or False, or None"),
        ({"overrides": {"add": {"description": 5}}}, "overrides of 'add': description must be a text"),
        ({"overrides": {"add": {"tags": "math"}}}, "overrides of 'add': tags must be a list of texts"),
        ({"overrides": {"add": {"parallel": None}}}, "overrides of 'add': parallel must be True or False"),
        ({"overrides": {"add": {"max_result_chars": -1}}}, "overrides of 'add': max_result_chars must be an int of"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        raw("shop", settings=settings)
    assert str(caught.value).startswith(f"MCP server 'shop': {said}")


@pytest.mark.parametrize(
    "make",
    [
        lambda: McpServer.stdio("python", None),  # type: ignore[arg-type]
        lambda: McpServer.stdio("python", ["x.py"], env={"PORT": 8080}),  # type: ignore[dict-item]
        lambda: McpServer.in_process(object()),
        lambda: McpServer.in_process([]),
        lambda: McpServer.http(URL, headers="X-Key: 5"),  # type: ignore[arg-type]
        lambda: McpServer.http(URL, headers={"X-Key": 5}),  # type: ignore[dict-item]
        lambda: McpServer.http(URL, headers={"X Key": "5"}),
        lambda: McpServer.http(URL, auth=5),
    ],
)
def test_what_is_no_server_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"McpServer\.|MCP server"):
        make()


def test_settings_that_make_sense_are_taken() -> None:
    nothing = dict.fromkeys(("title", "description", "tags", "read_only", "timeout", "max_result_chars"))
    server = raw(settings={"overrides": {"add": nothing}, "roots": [Path("/srv"), "file:///x"], "list_ttl": None})
    assert server.overrides == {"add": nothing}
    for value in ("", "x", "Bearer a.b-c=", "a b\tc", 'W/"tag"'):
        assert McpServer.http(URL, headers={"X-Key": value}).headers == {"X-Key": value}


async def test_a_directory_that_is_not_there_is_not_a_command_that_is_not_there(mcp: Any) -> None:
    tools = mcp(raw("shop").replace(cwd="/no/such/directory"))
    assert not await tools.listed()
    assert "its directory cannot be used (FileNotFoundError); see cwd=" in str(tools.status()[0].error)


# Secrets -------------------------------------------------------------------------------------------------------------

BROKEN = ["SECRET\n", "SECRET\r\nX-Other: 1", " SECRET", "SECRET ", "SECRET\x00", "SECRET\u2026"]


@pytest.mark.parametrize("value", BROKEN)
def test_a_header_that_http_does_not_allow_is_refused_without_its_value(value: str) -> None:
    with pytest.raises(ConfigurationError, match="header 'X-Key'") as caught:
        McpServer.http(URL, headers={"X-Key": value})
    assert "SECRET" not in str(caught.value)


def test_arguments_that_are_no_texts_are_refused_without_the_others() -> None:
    with pytest.raises(ConfigurationError, match="all texts") as caught:
        McpServer.stdio("python", ["--token", "SECRET", 5])  # type: ignore[list-item]
    assert "SECRET" not in str(caught.value)


def test_a_token_as_auth_is_refused_without_its_value() -> None:
    with pytest.raises(ConfigurationError, match="a token goes into headers=") as caught:
        McpServer.http(URL, auth="SECRET")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        *[({"X-Key": value}, "header 'X-Key'") for value in BROKEN],
        ({"X-Key": 5}, "texts by name"),
        ("SECRET", "texts by name"),
    ],
)
async def test_a_function_that_gives_no_headers_is_told_without_their_values(
    mcp: Any, kind: str, given: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def headers() -> Any:
        return given

    tools = mcp(getattr(McpServer, kind)("http://127.0.0.1:9/mcp", headers=headers))
    with caplog.at_level(logging.INFO, "advisorchain"):
        assert not await tools.listed()
    error = str(tools.status()[0].error)
    assert said in error and "SECRET" not in error + caplog.text


async def test_a_function_of_headers_that_is_not_async_is_told(mcp: Any) -> None:
    tools = mcp(McpServer.http("http://127.0.0.1:9/mcp", headers=lambda: {"X-Key": "5"}))  # type: ignore[arg-type]
    assert not await tools.listed()
    assert "headers= must be an async function" in str(tools.status()[0].error)


# Tokens that expire --------------------------------------------------------------------------------------------------


class Tokens:
    """A server that accepts one token, and the async function that gives it; each token is asked for once."""

    def __init__(self) -> None:
        self.server = LegacyMcp([{"name": "count", "inputSchema": {"type": "object"}}])
        self.valid = "t1"
        self.asked = 0
        self.seconds = 0.0
        self.refused = 0

    async def headers(self) -> dict[str, str]:
        self.asked += 1
        await anyio.sleep(self.seconds)
        return {"Authorization": f"Bearer {self.valid}"}

    def __call__(self, method: str, path: str, headers: dict[str, str], message: Any) -> Any:
        if headers.get("authorization") != f"Bearer {self.valid}":
            self.refused += 1
            return 401, {}, "no"
        return self.server(method, path, headers, message)


async def test_a_token_that_has_expired_is_asked_for_anew_and_no_call_is_lost(call: Any) -> None:
    tokens = Tokens()
    with serving(tokens) as http:
        async with McpTools([McpServer.http(http.url + "/mcp", headers=tokens.headers, era="legacy")]) as tools:
            assert (await call(tools, "count")).content == "done"
            assert tokens.asked == 1
            for number in (2, 3):
                tokens.valid = f"t{number}"
                assert (await call(tools, "count")).content == "done"
                assert (await call(tools, "count")).content == "done"
                assert tokens.asked == number
    assert tokens.server.calls == 5


async def test_many_calls_whose_token_has_expired_ask_once(call: Any) -> None:
    tokens = Tokens()
    with serving(tokens) as http:
        async with McpTools([McpServer.http(http.url + "/mcp", headers=tokens.headers, era="legacy")]) as tools:
            assert (await call(tools, "count")).content == "done"
            tokens.valid, tokens.seconds = "t2", 0.3
            async with anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(result_of, tools, "count")
    assert tokens.server.calls == 11
    assert tokens.asked == 2


async def test_a_token_that_is_renewed_changes_no_header_of_the_protocol(call: Any) -> None:
    tokens = Tokens()
    seen: list[dict[str, str]] = []

    def answer(method: str, path: str, headers: dict[str, str], message: Any) -> Any:
        if (message or {}).get("method") == "tools/call":
            seen.append({name: headers[name] for name in ("accept", "accept-encoding", "content-type")})
        return tokens(method, path, headers, message)

    async def headers() -> dict[str, str]:
        return {"accept": "text/csv", "Accept-Encoding": "gzip", "content-type": "text/csv", **await tokens.headers()}

    with serving(answer) as http:
        async with McpTools([McpServer.http(http.url + "/mcp", headers=headers, era="legacy")]) as tools:
            await tools.listed()
            tokens.valid = "t2"
            for _ in range(2):
                assert (await call(tools, "count")).content == "done"
    assert len(seen) == 3 and seen[0] == seen[1] == seen[2] and "gzip" not in str(seen)


async def test_a_token_that_stays_wrong_is_asked_for_once_a_call_and_told(mcp: Any, call: Any) -> None:
    tokens = Tokens()

    async def headers() -> dict[str, str]:
        tokens.asked += 1
        return {"Authorization": "Bearer t1"}

    with serving(tokens) as http:
        async with McpTools([McpServer.http(http.url + "/mcp", headers=headers, era="legacy")]) as tools:
            tokens.valid = "t2"
            asked = tokens.asked
            assert (await call(tools, "count")).is_error
            # Nothing is sent twice with the same token; the SDK may have asked for a stream at the same time.
            assert tokens.asked - asked == tokens.refused in (1, 2)
    assert tokens.server.calls == 0


async def test_a_function_of_headers_that_fails_costs_no_other_call(caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    called, goes_on = threading.Event(), threading.Event()

    def answer(method: str, path: str, headers: dict[str, str], message: Any) -> Any:
        answered = tokens(method, path, headers, message)
        if tokens.server.calls == 1 and not called.is_set():
            called.set()
            goes_on.wait(20)
        return answered

    async def headers() -> dict[str, str]:
        if called.is_set():
            raise RuntimeError("SECRET")
        return await tokens.headers()

    async def count() -> ToolMessage:
        client = ChatClient(ScriptedModel([[ToolCall("count", {})], "done"]), tools=[tools])
        (message,) = [each for each in (await client.call("go")).new_messages if isinstance(each, ToolMessage)]
        return message

    async def first() -> None:
        assert (await count()).content == "done"

    with serving(answer) as http:
        async with McpTools([McpServer.http(http.url + "/mcp", headers=headers, era="legacy")]) as tools:
            await tools.listed()
            async with anyio.create_task_group() as group:
                group.start_soon(first)
                await anyio.to_thread.run_sync(called.wait, 20)
                tokens.valid = "t2"
                with caplog.at_level(logging.INFO):
                    assert (await count()).is_error
                goes_on.set()
            assert tools.status()[0].state == "connected"
    assert "headers= failed: RuntimeError" in caplog.text and "SECRET" not in caplog.text
