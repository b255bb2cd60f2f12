"""Answers in the forms in which the provider was recorded: what no other server of the tests can make."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from advisorchain import (
    ChatClient,
    PartDelta,
    ProviderPart,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    Usage,
    UserMessage,
    dump_messages,
    load_messages,
    tool,
)
from advisorchain_anthropic.answer import Answer

THINKING = {"type": "thinking", "thinking": "Shall I look it up? I shall.", "signature": "EqQBCgIYAhIM"}
HIDDEN = {"type": "thinking", "thinking": "", "signature": "ZW1wdHk="}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}
CITATION = {
    "type": "web_search_result_location", "url": "https://example.org", "title": "An example",
    "encrypted_index": "Eo8BCioIAhgBIiQy", "cited_text": "It is 18 degrees.",
}  # fmt: skip
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "weather Paris"}}
FOUND = {
    "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "title": "An example", "url": "https://example.org",
                 "encrypted_content": "EqgfCioIARgBIiQ3", "page_age": None}],
}  # fmt: skip
UNKNOWN = {"type": "hologram", "planes": [1, 2], "label": "cube"}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(name: str = "look", call_id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"city": "Paris"}, **more}


def user(words: str) -> UserMessage:
    return UserMessage(content=words)


def own(kind: str, data: Any) -> ProviderPart:
    return ProviderPart(provider="anthropic", type=kind, data=data)


@tool
def look(city: str) -> str:
    """Look it up."""
    return f"18 degrees in {city}"


async def test_every_block_goes_back_as_it_came(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    blocks = [
        THINKING, REDACTED, HIDDEN, text("Let me search."), SEARCH, FOUND,
        text("It is warm.", citations=[CITATION]), UNKNOWN, use(),
    ]  # fmt: skip
    recorded.load(message(*blocks, stop_reason="tool_use"), message(text("Done.")))
    async with claude() as model:
        response = await run(ChatClient(model, tools=[look]), "Weather?")
    assert response.text == "Done."
    first = response.new_messages[0]
    assert first.content == (
        ReasoningPart(text=THINKING["thinking"]),
        own("thinking", THINKING),
        own("redacted_thinking", REDACTED),
        own("thinking", HIDDEN),
        TextPart(text="Let me search."),
        own("server_tool_use", SEARCH),
        own("web_search_tool_result", FOUND),
        TextPart(text="It is warm."),
        own("citations", [CITATION]),
        own("hologram", UNKNOWN),
    )
    assert [(call.name, call.id, call.executed_by) for call in first.tool_calls] == [
        ("web_search", "srvtoolu_1", "provider"),
        ("look", "toolu_1", "client"),
    ]
    assert recorded.bodies[1]["messages"][1] == {"role": "assistant", "content": blocks}
    if run.mode == "stream":
        parts = [event.part for event in run.events if isinstance(event, PartDelta)]
        assert parts == [part for part in first.content if isinstance(part, ProviderPart)]
        written: dict[int, str] = {}
        for event in run.events:
            if isinstance(event, ToolCallDelta):
                written[event.index] = written.get(event.index, "") + event.arguments
        assert [json.loads(written[index]) for index in (0, 1)] == [SEARCH["input"], {"city": "Paris"}]


async def test_blocks_survive_a_store_and_stay_away_from_other_providers(
    recorded: Any, claude: Any, message: Any, run: Any
) -> None:
    blocks = [THINKING, text("Before."), use(caller={"type": "direct"}), text("Between."), use(call_id="toolu_2")]
    recorded.load(message(*blocks, stop_reason="tool_use"), message(text("Done.")))
    async with claude() as model:
        response = await run(ChatClient(model, tools=[look]), "Weather?")
        assert recorded.bodies[1]["messages"][1]["content"] == blocks  # calls in their places, with all their fields
        kept = load_messages(dump_messages(response.new_messages))
        assert kept == response.new_messages
        await run(ChatClient(model, tools=[look]), [user("Weather?"), *kept, user("And now?")])
    assert recorded.bodies[-1]["messages"][1]["content"] == blocks
    async with claude(provider="another") as model:
        await run(ChatClient(model, tools=[look]), [user("Weather?"), *kept, user("And now?")])
    sent = recorded.bodies[-1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["text", "text", "tool_use", "tool_use"]
    assert "caller" not in sent[2]


async def test_usage(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    usage = {
        "input_tokens": 21, "cache_creation_input_tokens": 188, "cache_read_input_tokens": 1000, "output_tokens": 393,
        "output_tokens_details": {"thinking_tokens": 300}, "service_tier": "standard",
    }  # fmt: skip
    recorded.load(message(text("Hi."), usage=usage))
    async with claude() as model:
        response = await run(ChatClient(model), "hello")
        assert response.usage == Usage(1209, 393, cache_read_tokens=1000, cache_write_tokens=188, reasoning_tokens=300)

        recorded.load(message(text("Hi."), usage={"input_tokens": 21, "output_tokens": 3}))
        assert (await run(ChatClient(model), "hello")).usage == Usage(21, 3)

        recorded.load(message(text("Hi."), usage={"output_tokens": 3, "cache_read_input_tokens": None}))
        assert (await run(ChatClient(model), "hello")).usage == Usage(None, 3)

        recorded.load(message(text("Hi."), usage={}))
        assert (await run(ChatClient(model), "hello")).usage == Usage()


async def test_a_pause_goes_on(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    recorded.load(
        message(text("Searching."), text(" "), SEARCH, stop_reason="pause_turn"),
        message(FOUND, stop_reason="pause_turn"),
        message(text(" Found."), id="msg_03"),
    )
    async with claude() as model:
        response = await run(ChatClient(model), "Weather?")
    assert response.text == "Searching.  Found." and response.stop_reason == "final"
    assert response.usage == Usage(30, 15)
    assert response.metadata["response_id"] == "msg_03"
    assert [body["messages"][1:] for body in recorded.bodies] == [
        [],
        [{"role": "assistant", "content": [text("Searching."), SEARCH]}],
        [{"role": "assistant", "content": [text("Searching."), SEARCH, FOUND]}],
    ]


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        ({}, "container_1"),
        ({"container": "container_0"}, "container_1"),
        ({"container": {"skills": ["pptx"]}}, {"skills": ["pptx"], "id": "container_1"}),
    ],
)
async def test_a_pause_goes_on_in_its_container(
    recorded: Any, claude: Any, message: Any, run: Any, wanted: dict[str, Any], sent: Any
) -> None:
    """What server tools have made so far is there."""
    container = {"id": "container_1", "expires_at": "2030-01-01T00:00:00Z"}
    recorded.load(message(SEARCH, stop_reason="pause_turn", container=container), message(FOUND, text("Done.")))
    async with claude(options={"extra": wanted}) as model:
        response = await run(ChatClient(model), "Weather?")
    assert [body.get("container") for body in recorded.bodies] == [wanted.get("container"), sent]
    assert response.metadata["container"] == container


async def test_half_of_a_character_in_what_the_model_wrote(recorded: Any, claude: Any, message: Any) -> None:
    half = {"query": ["\ud83d"], "\ud83d": 1}
    recorded.load(
        message({**SEARCH, "input": half}, FOUND, use(input={"city": "\ud83d"}), stop_reason="tool_use"),
        message(text("Done.")),
    )
    async with claude() as model:
        response = await ChatClient(model, tools=[look]).call("Weather?")
    assert response.text == "Done."
    sent = recorded.bodies[1]["messages"][1]["content"]
    assert sent == [{**SEARCH, "input": {"query": ["?"], "?": 1}}, FOUND, use(input={"city": "?"})]


async def test_a_pause_without_an_end_is_handed_over(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    recorded.load(message(text("."), stop_reason="pause_turn"))
    async with claude() as model:
        response = await run(ChatClient(model), "Weather?")
    assert len(recorded.bodies) == 11
    assert response.text == "." * 11 and response.metadata["finish_reason"] == "pause_turn"


async def test_how_it_ended(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    recorded.load(message(text("I"), stop_reason="refusal", stop_details=details))
    async with claude() as model:
        response = await run(ChatClient(model), "hello")
        assert response.stop_reason == "refused" and response.metadata["stop_details"] == details
        recorded.load(message(text("I look."), use(), stop_reason="refusal"))
        response = await run(ChatClient(model, tools=[look]), "hello")
        assert response.stop_reason == "refused" and not response.tool_calls and response.text == "I look."
        recorded.load(message(text("1 2"), stop_reason="stop_sequence", stop_sequence="3"))
        response = await run(ChatClient(model), "hello")
        assert response.stop_reason == "final" and response.metadata["stop_sequence"] == "3"
        recorded.load(message(stop_reason="end_turn"))  # it happens after tool results
        response = await run(ChatClient(model), "hello")
        assert response.text == "" and response.stop_reason == "final"


async def test_calls_of_an_answer_that_was_cut_do_not_run(
    recorded: Any, claude: Any, message: Any, events: Any, as_bytes: Any
) -> None:
    cut = [event for event in events(message(use(), stop_reason="max_tokens")) if event["type"] != "content_block_stop"]
    half = [event for event in cut if event.get("delta", {}).get("partial_json") not in ('"Paris"', "}", 'ris"}')]
    recorded.load(as_bytes(*half))
    ran: list[str] = []

    @tool(name="look")
    def never(city: str) -> str:
        """Look it up."""
        ran.append(city)
        return city

    async with claude() as model, ChatClient(model, tools=[never]).stream("Weather?") as stream:
        response = await stream.response()
    assert response.stop_reason == "length" and not ran


async def test_a_call_without_arguments_and_one_with_broken_ones(
    recorded: Any, claude: Any, message: Any, events: Any, as_bytes: Any, run: Any
) -> None:
    recorded.load(message(use("now", input={}), stop_reason="tool_use"), message(text("Noon.")))

    @tool
    def now() -> str:
        """The time."""
        return "12:00"

    async with claude() as model:
        response = await run(ChatClient(model, tools=[now]), "What time?")
        assert response.text == "Noon." and response.new_messages[1].text == "12:00"

        broken = events(message(use("now"), stop_reason="tool_use"))
        for event in broken:
            if event.get("delta", {}).get("partial_json"):
                event["delta"]["partial_json"] = "["
        recorded.load(as_bytes(*broken), as_bytes(*events(message(text("Sorry.")))))
        async with ChatClient(model, tools=[now]).stream("What time?") as stream:
            response = await stream.response()
    assert response.text == "Sorry." and response.new_messages[1].is_error
    arguments = response.new_messages[0].tool_calls[0].arguments
    assert isinstance(arguments, str) and set(arguments) == {"["}
    assert recorded.bodies[1]["messages"][1]["content"][0]["input"] == {"malformed_arguments": arguments}


async def test_pieces_of_unknown_kinds(recorded: Any, claude: Any, as_bytes: Any, message: Any, events: Any) -> None:
    first, ping, *middle, ending, last = events(message(text("Hi.")))
    delta = {"type": "content_block_delta", "index": 1}
    unknown = [
        {"type": "content_block_start", "index": 1, "content_block": {"type": "compaction", "content": None}},
        {**delta, "delta": {"type": "compaction_delta", "content": "short"}},
        {**delta, "delta": {"type": "compaction_delta", "content": "ened", "tags": ["a"]}},
        {**delta, "delta": {"type": "compaction_delta", "tags": ["b"], "level": 2}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "smell_delta", "smell": "x"}},
        {"type": "weather_report", "sunny": True},
    ]
    recorded.load(as_bytes(first, ping, *middle, *unknown, ending, last))
    async with claude() as model, ChatClient(model).stream("hello") as stream:
        response = await stream.response()
    data = {"type": "compaction", "content": "shortened", "tags": ["a", "b"], "level": 2}
    assert response.message.content == (TextPart(text="Hi."), own("compaction", data))


async def test_a_server_that_does_not_say_where_blocks_begin_and_end(
    recorded: Any, claude: Any, as_bytes: Any, message: Any, events: Any
) -> None:
    left_out = ("content_block_start", "content_block_stop")
    recorded.load(as_bytes(*[event for event in events(message(text("Hi there."))) if event["type"] not in left_out]))
    async with claude() as model, ChatClient(model).stream("hello") as stream:
        assert (await stream.response()).text == "Hi there."


async def test_a_block_that_begins_with_text(
    recorded: Any, claude: Any, as_bytes: Any, message: Any, events: Any
) -> None:
    first, *others = events(message(THINKING, text("lo!"), use(input={}), stop_reason="tool_use"))
    starts = [event["content_block"] for event in others if event["type"] == "content_block_start"]
    starts[0]["thinking"], starts[1]["text"], starts[2]["input"] = "First: ", "Hel", {"city": "Rome"}
    recorded.load(as_bytes(first, *others), as_bytes(*events(message(text("Done.")))))
    seen: list[Any] = []
    async with claude() as model, ChatClient(model, tools=[look]).stream("hello") as stream:
        async for event in stream:
            seen.append(event)
        response = await stream.response()
    assert response.new_messages[0].content[:1] == (ReasoningPart(text="First: " + THINKING["thinking"]),)
    assert response.new_messages[0].text == "Hello!" and response.new_messages[1].text == "18 degrees in Rome"
    words = [event.text for event in seen if isinstance(event, TextDelta) and event.round == 1]
    assert "".join(words) == "Hello!" and words[0] == "Hel"
    assert "".join(event.text for event in seen if isinstance(event, ReasoningDelta)).startswith("First: Shall")


def test_a_long_answer_costs_no_more_than_its_length() -> None:
    answer = Answer("anthropic")
    citation = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": CITATION}}
    started = time.process_time()
    answer.add({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Warm."}})
    for _ in range(100_000):
        answer.add(citation)
    answer.add({"type": "message_stop"})
    [_, cited] = answer.response().message.content
    assert isinstance(cited, ProviderPart) and len(cited.data) == 100_000
    assert time.process_time() - started < 4, "copying what was there with every citation takes three times as long"
