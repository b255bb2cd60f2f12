"""Responses in the forms in which the provider was recorded: what no other server of the tests can make."""

from __future__ import annotations

import json
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
from advisorchain_openai import OpenAIModel

THOUGHT = {
    "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAAABo", "status": "completed",
    "summary": [{"type": "summary_text", "text": "Shall I look it up?"}, {"type": "summary_text", "text": "I shall."}],
}  # fmt: skip
HIDDEN = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBBBBBp"}
SEARCH = {
    "type": "web_search_call", "id": "ws_1", "status": "completed",
    "action": {"type": "search", "query": "weather Paris", "sources": [{"type": "url", "url": "https://example.org"}]},
}  # fmt: skip
RUN = {
    "type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "1 + 1", "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "2"}],
}  # fmt: skip
ASKED = {
    "type": "mcp_call", "id": "mcp_1", "server_label": "wiki", "name": "read", "arguments": '{"page":"Paris"}',
    "output": "A city.", "status": "completed",
}  # fmt: skip
UNKNOWN = {"type": "hologram", "id": "ho_1", "planes": [1, 2], "label": "cube"}
CITATION = {
    "type": "url_citation", "url": "https://example.org", "title": "An example", "start_index": 0, "end_index": 5,
}  # fmt: skip


def says(text: str, item_id: str = "msg_1", annotations: Any = (), **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content, **more}


def calls(call_id: str = "call_1", **more: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "look", "status": "completed"}
    return {**item, "arguments": '{"city":"Paris"}', **more}


def sent(item: dict[str, Any]) -> dict[str, Any]:
    """A call as it goes back: its id means nothing to a provider that keeps nothing."""
    return {key: value for key, value in item.items() if key not in ("id", "status")}


def own(kind: str, data: Any) -> ProviderPart:
    return ProviderPart(provider="openai.responses", type=kind, data=data)


def user(text: str) -> UserMessage:
    return UserMessage(content=text)


@tool
def look(city: str) -> str:
    """Look it up."""
    return f"18 degrees in {city}"


async def test_every_item_goes_back_in_its_place(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    items = [
        THOUGHT, says("Let me search.", phase="commentary"), SEARCH, RUN, ASKED, UNKNOWN,
        says("It is warm.", "msg_2", [CITATION]), HIDDEN, calls(), calls("call_2", namespace="weather"),
    ]  # fmt: skip
    recorded.load(response(*items), response(says("Done.")))
    async with gpt(server_tools=[{"type": "web_search"}]) as model:
        answer = await run(ChatClient(model, tools=[look], system="Be brief."), "Weather?")
    assert answer.text == "Done." and answer.message.content == "Done."
    first = answer.new_messages[0]
    assert first.content == (
        ReasoningPart(text="Shall I look it up?\n\nI shall."),
        own("reasoning", THOUGHT),
        own("message", {"phase": "commentary"}),
        TextPart(text="Let me search."),
        own("web_search_call", SEARCH),
        own("code_interpreter_call", RUN),
        own("mcp_call", ASKED),
        own("hologram", UNKNOWN),
        TextPart(text="It is warm."),
        own("annotations", [CITATION]),
        own("reasoning", HIDDEN),
    )
    assert [(call.name, call.id, call.executed_by, call.arguments) for call in first.tool_calls] == [
        ("web_search", "ws_1", "provider", SEARCH["action"]),
        ("code_interpreter", "ci_1", "provider", {"code": "1 + 1"}),
        ("read", "mcp_1", "provider", {"page": "Paris"}),
        ("look", "call_1", "client", {"city": "Paris"}),
        ("look", "call_2", "client", {"city": "Paris"}),
    ]
    before, after = recorded.bodies
    assert before["store"] is False and before["include"] == ["reasoning.encrypted_content"]
    assert before["instructions"] == "Be brief."
    assert before["input"] == [{"type": "message", "role": "user", "content": "Weather?"}]
    assert before["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "Look it up.",
            "parameters": dict(look.input_schema),
            "strict": False,
        },
        {"type": "web_search"},
    ]
    cited = {"type": "output_text", "text": "It is warm.", "annotations": [CITATION]}
    assert after["input"] == [
        *before["input"],
        THOUGHT,
        {"type": "message", "role": "assistant", "content": "Let me search.", "phase": "commentary"},
        SEARCH,
        RUN,
        ASKED,
        UNKNOWN,
        {"type": "message", "role": "assistant", "content": [cited]},
        HIDDEN,
        sent(calls()),
        sent(calls("call_2", namespace="weather")),
        {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees in Paris"},
        {"type": "function_call_output", "call_id": "call_2", "output": "18 degrees in Paris"},
    ]
    if run.mode == "stream":
        parts = [event.part for event in run.events if isinstance(event, PartDelta)]
        assert parts == [part for part in first.content if isinstance(part, ProviderPart)]
        thoughts = "".join(event.text for event in run.events if isinstance(event, ReasoningDelta))
        assert thoughts == "Shall I look it up?\n\nI shall."
        written: dict[int, str] = {}
        names: dict[int, Any] = {}
        for event in run.events:
            if isinstance(event, ToolCallDelta):
                written[event.index] = written.get(event.index, "") + event.arguments
                names.setdefault(event.index, (event.name, event.id))
        assert [json.loads(written[index]) for index in range(5)] == [call.arguments for call in first.tool_calls]
        assert [names[index] for index in range(5)] == [(call.name, call.id) for call in first.tool_calls]
        texts = [event.text for event in run.events if isinstance(event, TextDelta) and event.round == 1]
        assert "".join(texts) == first.text and len(texts) == 4, "in the pieces in which they came"


async def test_calls_between_thoughts_keep_their_places(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    caller = {"type": "program", "caller_id": "cm_1"}
    items = [THOUGHT, calls(caller=caller), HIDDEN, calls("call_2"), says("Between."), calls("call_3")]
    recorded.load(response(*items), response(says("Done.")))
    expected = [THOUGHT, sent(items[1]), HIDDEN, sent(items[3])]
    expected += [{"type": "message", "role": "assistant", "content": "Between."}, sent(items[5])]
    async with gpt() as model:
        answer = await run(ChatClient(model, tools=[look]), "Weather?")
        assert recorded.bodies[1]["input"][1:7] == expected
        kept = load_messages(dump_messages(answer.new_messages))
        assert kept == answer.new_messages
        await run(ChatClient(model, tools=[look]), [user("Weather?"), *kept, user("And now?")])
        assert recorded.bodies[-1]["input"][1:7] == expected
    async with gpt(provider="another") as model:
        await run(ChatClient(model, tools=[look]), [user("Weather?"), *kept, user("And now?")])
    strange = recorded.bodies[-1]["input"][1:5]
    assert [item["type"] for item in strange] == ["message", *["function_call"] * 3]
    assert not any("caller" in item for item in strange)


async def test_chat_completions_of_the_same_provider_get_none_of_it(
    recorded: Any, gpt: Any, response: Any, run: Any
) -> None:
    recorded.load(response(THOUGHT, SEARCH, says("See.", phase="commentary"), calls()), response(says("Done.")))
    async with gpt() as model:
        answer = await run(ChatClient(model, tools=[look]), "Weather?")
    completion = {"choices": [{"index": 0, "message": {"content": "Hm."}, "finish_reason": "stop"}]}
    recorded.load(completion)
    async with OpenAIModel("gpt-4o", base_url=recorded.url, api_key="k") as chat:
        await ChatClient(chat).call([user("Weather?"), *answer.new_messages, user("And now?")])
    function = {"name": "look", "arguments": '{"city": "Paris"}'}
    assert recorded.bodies[0]["messages"][1] == {
        "role": "assistant",
        "content": "See.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


async def test_thoughts_that_lead_nowhere_do_not_go_back(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    """A reasoning item must have what it led to after it, and one without encrypted content is only an id."""
    bare = {"type": "reasoning", "id": "rs_3", "summary": [{"type": "summary_text", "text": "Hm."}]}
    shown = {"type": "reasoning", "id": "rs_4", "summary": [], "content": [{"type": "reasoning_text", "text": "Aha."}]}
    cut = {"reason": "max_output_tokens"}
    recorded.load(response(THOUGHT, status="incomplete", incomplete_details=cut))
    async with gpt() as model:
        first = await run(ChatClient(model), "Weather?")
        assert first.stop_reason == "length" and first.text == ""
        recorded.load(response(bare, says("Warm.")))
        second = await run(ChatClient(model), [user("Weather?"), first.message, user("Well?")])
        assert [item["type"] for item in recorded.bodies[0]["input"]] == ["message", "message"]
        recorded.load(response(shown, says("Warm.")))
        third = await run(ChatClient(model), [user("Weather?"), second.message, user("Well?")])
        assert [item["type"] for item in recorded.bodies[0]["input"]] == ["message"] * 3
        assert third.message.content[0] == ReasoningPart(text="Aha.")
        await run(ChatClient(model), [user("Weather?"), third.message, user("Well?")])
        assert recorded.bodies[-1]["input"][1] == shown


async def test_usage(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    usage = {
        "input_tokens": 1209, "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 188},
        "output_tokens": 393, "output_tokens_details": {"reasoning_tokens": 300}, "total_tokens": 1602,
    }  # fmt: skip
    recorded.load(response(says("Hi."), usage=usage))
    async with gpt() as model:
        answer = await run(ChatClient(model), "hello")
        assert answer.usage == Usage(1209, 393, cache_read_tokens=1000, cache_write_tokens=188, reasoning_tokens=300)
        recorded.load(response(says("Hi."), usage={"input_tokens": 21, "output_tokens": 3}))
        assert (await run(ChatClient(model), "hello")).usage == Usage(21, 3)
        recorded.load(response(says("Hi."), usage=None))
        assert (await run(ChatClient(model), "hello")).usage == Usage()


@pytest.mark.parametrize(
    ("status", "details", "stop_reason", "finish_reason"),
    [
        ("completed", None, "final", "completed"),
        ("incomplete", {"reason": "max_output_tokens"}, "length", "max_output_tokens"),
        ("incomplete", {"reason": "content_filter"}, "filtered", "content_filter"),
        ("incomplete", {"reason": "something_new"}, "length", "something_new"),
        ("incomplete", None, "length", "incomplete"),
    ],
)
async def test_how_it_ended(
    recorded: Any, gpt: Any, response: Any, run: Any, status: str, details: Any, stop_reason: str, finish_reason: str
) -> None:
    recorded.load(response(says("Once"), status=status, incomplete_details=details))
    async with gpt() as model:
        answer = await run(ChatClient(model), "hello")
    assert answer.stop_reason == stop_reason and answer.text == "Once"
    expected = {"response_id": "resp_1", "response_model": "gpt-5-mini-2025", "finish_reason": finish_reason}
    assert answer.metadata == expected


async def test_a_refusal(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    refusal = {**says(""), "content": [{"type": "refusal", "refusal": "I can't help with that."}]}
    recorded.load(response(refusal))
    async with gpt() as model:
        answer = await run(ChatClient(model), "hello")
        assert answer.stop_reason == "refused" and answer.text == "I can't help with that."
        recorded.load(response(refusal), response(says('{"value": [1]}')))
        answer = await ChatClient(model).call("hello", output_type=str)
        assert answer.stop_reason == "refused"


async def test_calls_of_an_answer_that_was_cut_do_not_run(
    recorded: Any, gpt: Any, response: Any, events: Any, as_bytes: Any
) -> None:
    whole = response(calls(), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    *started, last = [event for event in events(whole) if event["type"] != "response.output_item.done"]
    half = [event for event in started if event.get("delta") != '"}' and "arguments.done" not in event["type"]]
    recorded.load(as_bytes(*half, {**last, "response": {**last["response"], "output": []}}))
    ran: list[str] = []

    @tool(name="look")
    def never(city: str) -> str:
        """Look it up."""
        ran.append(city)
        return city

    seen: list[Any] = []
    async with gpt() as model, ChatClient(model, tools=[never]).stream("Weather?") as stream:
        async for event in stream:
            seen.append(event)
        answer = await stream.response()
    assert answer.stop_reason == "length" and not ran
    deltas = [event.arguments for event in seen if isinstance(event, ToolCallDelta) and event.round == 1]
    assert "".join(deltas) == '{"city":"Paris'


async def test_a_call_without_arguments_and_one_with_broken_ones(
    recorded: Any, gpt: Any, response: Any, run: Any
) -> None:
    @tool
    def now() -> str:
        """The time."""
        return "12:00"

    recorded.load(response(calls(name="now", arguments="")), response(says("Noon.")))
    async with gpt() as model:
        answer = await run(ChatClient(model, tools=[now]), "What time?")
        assert answer.new_messages[1].text == "12:00" and recorded.bodies[1]["input"][1]["arguments"] == "{}"
        recorded.load(response(calls(name="now", arguments="[1")), response(says("Sorry.")))
        answer = await run(ChatClient(model, tools=[now]), "What time?")
    assert answer.text == "Sorry." and answer.new_messages[1].is_error
    assert answer.new_messages[0].tool_calls[0].arguments == "[1"
    assert json.loads(recorded.bodies[1]["input"][1]["arguments"]) == {"malformed_arguments": "[1"}


async def test_content_of_unknown_kinds_and_logprobs(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    smell = {"type": "output_smell", "smell": "rose"}
    message = says("Hi.")
    message["content"][0]["logprobs"] = [{"token": "Hi", "logprob": -0.1}]
    message["content"].append(smell)
    recorded.load(response(message))
    async with gpt() as model:
        answer = await run(ChatClient(model), "hello")
        assert answer.message.content == (
            TextPart(text="Hi."),
            own("logprobs", [{"token": "Hi", "logprob": -0.1}]),
            own("content.output_smell", smell),
        )
        await run(ChatClient(model), [user("a"), answer.message, user("b")])
    assert recorded.bodies[-1]["input"][1]["content"] == [{"type": "output_text", "text": "Hi."}, smell]


async def test_an_approval_goes_back_as_an_item(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    wanted = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "wiki", "name": "read", "arguments": "{}"}
    recorded.load(response(wanted))
    async with gpt() as model:
        answer = await run(ChatClient(model), "Read it.")
        assert answer.message.content == (own("mcp_approval_request", wanted),) and not answer.tool_calls
        recorded.load(response(says("Read.")))
        yes = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
        approval = UserMessage(content=(own("mcp_approval_response", yes),))
        await run(ChatClient(model), [user("Read it."), answer.message, approval])
    assert recorded.bodies[0]["input"][1:] == [wanted, yes]
