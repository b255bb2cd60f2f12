"""Who may talk to tools that are served over HTTP: tokens, hosts, origins."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from served_http import MODERN, connected, raw, serving
from served_tools import receipt, total

from advisorchain import ConfigurationError
from advisorchain.advisors import RateLimitAdvisor
from advisorchain.mcp import MCP_CALLER, serve_tools


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """uvicorn runs on asyncio."""
    return "asyncio"


# Who may talk to it --------------------------------------------------------------------------------------------------


async def by_function(token: str) -> bool:
    return token == "right"


def by_plain_function(token: str) -> bool:
    return token == "right"


class ByObject:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="ann", scopes=[]) if token == "right" else None


@pytest.mark.parametrize("verifier", [by_function, by_plain_function, ByObject()])
async def test_a_token_is_asked_for(mode: str, verifier: Any) -> None:
    async with serving(total, token_verifier=verifier) as url:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic right"}):
            refused = await raw(url, MODERN, "tools/list", headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith("Bearer")
            assert "right" not in refused.text
        async with connected(url, mode, "right") as client:
            result = await client.call_tool("total", {"order": 1})

    client_id = result.structured_content["client"]
    assert client_id == "ann" if isinstance(verifier, ByObject) else client_id.startswith("token-")
    assert "right" not in client_id


async def test_a_verifier_that_fails_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    def broken(token: str) -> bool:
        raise RuntimeError("secret database")

    async with serving(total, token_verifier=broken) as url:
        refused = await raw(url, MODERN, "tools/list", {"Authorization": "Bearer right"})

    assert refused.status_code == 401
    assert "secret" not in refused.text
    assert "token verifier failed" in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
async def test_an_address_that_others_can_reach_demands_a_token_verifier(host: str) -> None:
    with pytest.raises(ConfigurationError, match="token_verifier"):
        await serve_tools([total], transport="http", host=host, port=0)


async def test_bound_to_all_addresses_the_token_decides(mode: str) -> None:
    async with serving(total, host="0.0.0.0", token_verifier=by_function) as url:
        assert url.startswith("http://0.0.0.0:")
        async with connected(url.replace("0.0.0.0", "127.0.0.1"), mode, "right") as client:
            assert not (await client.call_tool("total", {"order": 1})).is_error
        page = {"Authorization": "Bearer right", "Origin": "http://localhost:9"}
        assert (await raw(url.replace("0.0.0.0", "127.0.0.1"), MODERN, "tools/list", page)).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost@evil", "["])
async def test_another_host_is_refused(host: str) -> None:
    async with serving(receipt) as url:
        refused = await raw(url, MODERN, "tools/list", {"Host": host})

    assert refused.status_code == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "http://localhost@evil.example", "http://["]
)  # fmt: skip
async def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    async with serving(receipt) as url:
        refused = await raw(url, MODERN, "tools/list", {"Origin": origin})

    assert refused.status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:5", "https://app.example"]
)
async def test_pages_of_this_machine_and_those_that_are_listed_may_ask(origin: str) -> None:
    async with serving(receipt, allowed_origins=["https://app.example"]) as url:
        answer = await raw(url, MODERN, "tools/list", {"Origin": origin})

    assert len(answer["result"]["tools"]) == 1


async def test_hosts_may_be_listed() -> None:
    async with serving(receipt, allowed_hosts=["mcp.example"]) as url:
        assert (await raw(url, MODERN, "tools/list")).status_code == 421
        answer = await raw(url, MODERN, "tools/list", {"Host": "MCP.example:443"})

    assert len(answer["result"]["tools"]) == 1


class ByResource:
    async def verify_token(self, token: str) -> AccessToken | None:
        resource = "https://mcp.example/mcp" if token == "right" else "https://other.example/mcp"
        return AccessToken(token=token, client_id="ann", scopes=["tools"], resource=resource)


async def test_with_auth_settings_clients_learn_who_issues_tokens() -> None:
    auth = AuthSettings(
        issuer_url="https://id.example", resource_server_url="https://mcp.example/mcp", required_scopes=["tools"],
        validate_token_resource=True,
    )  # fmt: skip
    async with serving(total, token_verifier=ByResource(), auth=auth) as url:
        refused = await raw(url, MODERN, "tools/list")
        for_another = await raw(url, MODERN, "tools/list", {"Authorization": "Bearer other"})
        answer = await raw(url, MODERN, "tools/list", {"Authorization": "Bearer right"})
        async with httpx2.AsyncClient() as http:
            told = await http.get(url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"))

    assert refused.status_code == for_another.status_code == 401
    assert "resource_metadata=" in refused.headers["www-authenticate"]
    assert told.json()["authorization_servers"] == ["https://id.example"]
    assert len(answer["result"]["tools"]) == 1


async def test_auth_settings_without_a_verifier_are_refused() -> None:
    auth = AuthSettings(issuer_url="https://id.example", resource_server_url=None)
    with pytest.raises(ConfigurationError, match="token_verifier"):
        await serve_tools([total], transport="http", port=0, auth=auth)


async def test_a_limit_may_count_by_caller() -> None:
    limit = RateLimitAdvisor(calls=1, per=3600, by="tool", scope=MCP_CALLER)

    class ByName:
        async def verify_token(self, token: str) -> AccessToken | None:
            return AccessToken(token=token, client_id=token, scopes=[])

    async with (
        serving(total, token_verifier=ByName(), advisors=[limit]) as url,
        connected(url, "auto", "ann") as ann,
        connected(url, "auto", "bob") as bob,
    ):
        first = await ann.call_tool("total", {"order": 1})
        second = await ann.call_tool("total", {"order": 1})
        other = await bob.call_tool("total", {"order": 1})

    assert (first.is_error, second.is_error, other.is_error) == (False, True, False)
