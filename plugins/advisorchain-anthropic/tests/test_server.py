"""Where the server of a model is: known without a connection, for traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import pytest

from advisorchain import ChatClient
from advisorchain_anthropic import AnthropicModel

if TYPE_CHECKING:
    from aimock import Aimock


def test_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)

    def server(**settings: Any) -> tuple[Any, Any]:
        model = AnthropicModel("claude-sonnet-5", **settings)
        return model.server_address, model.server_port

    assert server(api_key="k") == ("api.anthropic.com", 443)
    assert server(base_url="http://ann:pass@localhost:8080") == ("localhost", 8080)
    assert server(base_url="http://localhost:port") == (None, None)
    assert server(client=lambda: anthropic.AsyncAnthropic(api_key="k")) == (None, None)
    mine = anthropic.AsyncAnthropic(api_key="k", base_url="https://gateway.example")
    assert server(client=mine) == ("gateway.example", 443)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://[::1]:1234")
    assert server() == ("::1", 1234)


async def test_where_the_server_of_a_function_is(aimock: Aimock, model: AnthropicModel) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])
    assert model.server_address is None and model.provider == "anthropic"
    await ChatClient(model).call("hello")
    assert f"http://{model.server_address}:{model.server_port}" == aimock.anthropic_url
