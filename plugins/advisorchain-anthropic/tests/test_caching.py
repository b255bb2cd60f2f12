"""What the provider is told to cache, and the tools that it runs itself."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    ChatClient,
    ProviderPart,
    TextPart,
    UserMessage,
    tool,
)

THINKING = {"type": "thinking", "thinking": "Shall I look it up? I shall.", "signature": "EqQBCgIYAhIM"}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use() -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Paris"}}


def user(words: str) -> UserMessage:
    return UserMessage(content=words)


@tool
def look(city: str) -> str:
    """Look it up."""
    return f"18 degrees in {city}"


EPHEMERAL = {"type": "ephemeral"}


def marks(body: dict[str, Any]) -> dict[str, Any]:
    """Where the body has ``cache_control``."""
    found: dict[str, Any] = {}
    for index, entry in enumerate(body.get("tools", [])):
        if "cache_control" in entry:
            found[f"tools.{index}"] = entry["cache_control"]
    if isinstance(body.get("system"), list):
        found["system"] = body["system"][-1].get("cache_control")
    for index, sent in enumerate(body["messages"]):
        for place, block in enumerate(sent["content"]):
            if "cache_control" in block:
                found[f"messages.{index}.{place}"] = block["cache_control"]
    return found


@pytest.mark.parametrize(
    ("cache", "places"),
    [
        (False, []),
        ("tools", ["tools.1"]),
        ("system", ["system"]),
        (("system", "tools"), ["tools.1", "system"]),
        (True, ["tools.1", "system", "messages.0.0"]),
    ],
)
async def test_what_is_cached(
    recorded: Any, claude: Any, message: Any, run: Any, cache: Any, places: list[str]
) -> None:
    web = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    recorded.load(message(text("Hi.")))
    async with claude(cache=cache, server_tools=[web]) as model:
        await run(ChatClient(model, tools=[look], system="Be kind."), "hello")
    (body,) = recorded.bodies
    assert marks(body) == dict.fromkeys(places, EPHEMERAL)
    assert {key: body["tools"][1][key] for key in web} == web
    assert web == {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


async def test_the_mark_moves_on_with_the_rounds(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    recorded.load(message(THINKING, use(), stop_reason="tool_use"), message(text("Done.")))
    async with claude(cache="messages", cache_ttl="1h") as model:
        client = ChatClient(model, tools=[look])
        response = await run(client, "hello")
        await run(client, [user("hello"), *response.new_messages[:-1], user("Go on, please.")])
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert [marks(body) for body in recorded.bodies] == [
        {"messages.0.0": hour}, {"messages.2.0": hour}, {"messages.2.1": hour},
    ]  # fmt: skip
    assert "cache_control" not in str(response.new_messages)


async def test_a_named_server_tool_may_be_demanded(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    recorded.load(message(text("Hi.")))
    async with claude(server_tools=[{"type": "web_search_20250305", "name": "web_search"}]) as model:
        await run(ChatClient(model), "hello", options={"tool_choice": "web_search"})
    assert recorded.bodies[0]["tool_choice"] == {"type": "tool", "name": "web_search"}


async def test_a_wide_round_is_found_again(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    """The provider looks back 20 blocks from a mark: after more of them the last message needs a second mark."""
    wide = [{**use(), "id": f"toolu_{number}"} for number in range(12)]
    recorded.load(message(*wide, stop_reason="tool_use"), message(text("Done.")))
    async with claude(cache=True) as model:
        await run(ChatClient(model, tools=[look], system="Be kind."), "hello")
    expected = ["tools.0", "system", "messages.0.0", "messages.2.11"]
    assert [*marks(recorded.bodies[1])] == expected

    own = {"type": "text", "text": "A book.", "cache_control": EPHEMERAL}
    recorded.load(message(*wide, stop_reason="tool_use"), message(text("Done.")))
    book = UserMessage(content=(ProviderPart(provider="anthropic", type="text", data=own), TextPart(text="hello")))
    async with claude(cache=True) as model:
        await run(ChatClient(model, tools=[look], system="Be kind."), [book])
    assert [*marks(recorded.bodies[1])] == ["tools.0", "system", "messages.0.0", "messages.2.11"], "never over four"
