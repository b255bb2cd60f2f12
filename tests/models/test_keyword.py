"""`KeywordModel`: which tools it picks, what it fills in, what it says, and that it never raises."""

from __future__ import annotations

import datetime
import json
import math
import subprocess
import sys
import time
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from advisorchain import (
    AssistantMessage,
    ChatClient,
    Message,
    OutputError,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolContext,
    ToolError,
    ToolMessage,
    UserMessage,
    tool,
)
from advisorchain.cli.travel_desk import TravelDesk, TravelDeskInChinese
from advisorchain.models import KeywordModel
from advisorchain.models.keyword_plan import _clauses

TODAY = datetime.date(2026, 3, 1)


@tool(tags=["forecast"])
async def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Current weather for a city."""
    return {"city": city, "degrees": 21, "sunny": True, "unit": unit}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def book_flight(origin: str, destination: str, date: str, passengers: int = 1) -> str:
    """Book a flight."""
    return f"{origin} to {destination} on {date} for {passengers}"


@tool(name="sendEmail")
async def send_email(to: str, subject: str = "", body: str = "") -> str:
    """Send an e-mail."""
    return f"sent to {to}"


@tool
async def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression."""
    return expression


@tool(name="orders.cancelOrder")
async def cancel_order(order_id: str, notify: bool = True) -> str:
    """Cancel an order."""
    return f"{order_id} cancelled, notify {notify}"


@tool
async def list_invoices(ids: list[str], max_results: int = 10, since: datetime.date | None = None) -> list[str]:
    """List invoices."""
    return [*ids, str(max_results), str(since)]


OFFICE = [get_weather, add, book_flight, send_email, calculator, cancel_order, list_invoices]


def calls_of(response: Any) -> list[tuple[str, Any]]:
    return [
        (call.name, call.arguments)
        for message in response.new_messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]


def model() -> KeywordModel:
    return KeywordModel(today=lambda: TODAY)


STATUS = "query_travel_request"
BUDGET = "analyze_travel_budget"


@pytest.mark.parametrize("desk", [TravelDesk, TravelDeskInChinese])
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the status of TR001?", [(STATUS, {"request_id": "TR001"})]),
        ("Is tr002 approved?", [(STATUS, {"request_id": "tr002"})]),
        ("TR001的审批状态", [(STATUS, {"request_id": "TR001"})]),
        ("TR003的状态", [(STATUS, {"request_id": "TR003"})]),
        ("请问ＴＲ００３的审批状态是什么？", [(STATUS, {"request_id": "TR003"})]),
        ("TR001", [(STATUS, {"request_id": "TR001"})]),
        ("What is the status of my travel request?", [(STATUS, {})]),
        ("我的差旅申请状态", [(STATUS, {})]),
        ("Status of TR001 and TR002", [(STATUS, {"request_id": "TR001"}), (STATUS, {"request_id": "TR002"})]),
        ("TR001和TR002的状态", [(STATUS, {"request_id": "TR001"}), (STATUS, {"request_id": "TR002"})]),
        ("Analyze the travel budget.", [(BUDGET, {})]),
        ("帮我分析差旅预算", [(BUDGET, {})]),
        ("Status of TR002, and analyze the travel budget", [(STATUS, {"request_id": "TR002"}), (BUDGET, {})]),
        ("查询TR002的状态，并分析差旅预算", [(STATUS, {"request_id": "TR002"}), (BUDGET, {})]),
    ],
)
async def test_the_travel_desk_in_both_languages(
    desk: type[Any], question: str, expected: list[tuple[str, Any]], run: Any
) -> None:
    response = await run(ChatClient(model(), tools=[desk()]), question)
    assert calls_of(response) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("weather in Paris", ("get_weather", {"city": "Paris"})),
        ("what's the weather in new york today?", ("get_weather", {"city": "new york"})),
        ("Forecast for Rome in fahrenheit", ("get_weather", {"city": "Rome", "unit": "fahrenheit"})),
        ("帮我查一下上海明天的天气", ("get_weather", {"city": "上海"})),
        ("北京今天天气怎么样", ("get_weather", {"city": "北京"})),
        ("What is 2 + 3?", ("add", {"a": 2, "b": 3})),
        ("Add 1,000 and -7", ("add", {"a": 1000, "b": -7})),
        ("calculate (2+3)*4", ("calculator", {"expression": "(2+3)*4"})),
        (
            "Book a flight from Paris to New York on 2026-04-05 for 2 passengers",
            ("book_flight", {"origin": "Paris", "destination": "New York", "date": "2026-04-05", "passengers": 2}),
        ),
        (
            "Book a flight to Rome from Oslo on March 9, 2026",
            ("book_flight", {"origin": "Oslo", "destination": "Rome", "date": "2026-03-09"}),
        ),
        (
            "预订明天从北京到上海的航班",
            ("book_flight", {"origin": "北京", "destination": "上海", "date": "2026-03-02"}),
        ),
        (
            'Send an email to bob@example.org with subject "Hi there"',
            ("sendEmail", {"to": "bob@example.org", "subject": "Hi there"}),
        ),
        ("cancel order ABC-123", ("orders.cancelOrder", {"order_id": "ABC-123"})),
        ("cancel order 4711 without notify", ("orders.cancelOrder", {"order_id": "4711", "notify": False})),
        ("取消订单 ABC-123", ("orders.cancelOrder", {"order_id": "ABC-123"})),
        (
            "list invoices INV-1, INV-2 since 2026-01-05, 5 results",
            ("list_invoices", {"ids": ["INV-1", "INV-2"], "max_results": 5, "since": "2026-01-05"}),
        ),
        ("use add with a=5 and b=6", ("add", {"a": 5, "b": 6})),
    ],
)
async def test_arguments_come_from_the_text(question: str, expected: tuple[str, Any]) -> None:
    response = await ChatClient(model(), tools=OFFICE).call(question)
    assert calls_of(response) == [expected]


@pytest.mark.parametrize(
    ("question", "cities"),
    [
        ("What's the weather in Paris and in Rome?", ["Paris", "Rome"]),
        ("北京和上海的天气", ["北京", "上海"]),
        ("weather in Oslo, Bergen and Rome", ["Oslo", "Bergen", "Rome"]),
    ],
)
async def test_several_names_are_several_calls(question: str, cities: list[str]) -> None:
    response = await ChatClient(model(), tools=[get_weather]).call(question)
    assert calls_of(response) == [("get_weather", {"city": city}) for city in cities]


async def test_a_later_id_alone_means_the_last_tool() -> None:
    client = ChatClient(model(), tools=[TravelDesk(), cancel_order])
    first = await client.call("Status of TR001?")
    response = await client.call(
        [UserMessage(content="Status of TR001?"), *first.new_messages, UserMessage(content="TR003?")]
    )
    assert calls_of(response) == [(STATUS, {"request_id": "TR003"})]


# What it says ---------------------------------------------------------------------------------------------------------


async def test_it_says_in_one_sentence_that_it_is_rule_based(run: Any) -> None:
    response = await run(ChatClient(model(), tools=[get_weather]), "Tell me a joke")
    assert "rule-based" in response.text and "get weather" in response.text and response.text.count(".") == 1
    response = await run(ChatClient(model(), tools=[get_weather]), "讲个笑话")
    assert "规则" in response.text
    response = await run(ChatClient(model()), "Status of TR001")
    assert "rule-based" in response.text


async def test_it_asks_for_what_is_missing() -> None:
    client = ChatClient(model(), tools=OFFICE)
    response = await client.call("Book a flight to Rome")
    assert calls_of(response) == []
    assert "origin" in response.text and "date" in response.text and "destination" not in response.text
    assert "还需要：city" in (await client.call("天气怎么样")).text


async def test_answers_are_made_from_results(run: Any) -> None:
    client = ChatClient(model(), tools=OFFICE)
    assert (await run(client, "weather in Paris")).text == (
        "According to get weather: city: Paris, degrees: 21, sunny: yes, unit: celsius."
    )
    assert (await run(client, "What is 2 + 3?")).text == "According to add: 5."
    assert (await run(client, "北京的天气")).text.startswith("根据“get weather”的结果：city：北京，")


async def test_errors_are_told_in_words(run: Any) -> None:
    @tool
    async def lookup(request_id: str) -> str:
        """Look up a request."""
        raise ToolError(f"{request_id} is locked.")

    client = ChatClient(model(), tools=[lookup])
    response = await run(client, "look up request TR001")
    assert response.text == "Lookup could not do it: TR001 is locked."
    assert len(calls_of(response)) == 1, "an error is not tried again"
    assert (await run(client, "申请TR001")).text == "“lookup”未能完成：TR001 is locked."


async def test_long_lists_and_empty_results() -> None:
    @tool
    async def list_things() -> list[dict[str, Any]]:
        """List the things."""
        return [{"n": n, "tags": []} for n in range(14)]

    @tool
    async def nothing() -> None:
        """Fetch nothing."""

    client = ChatClient(model(), tools=[list_things, nothing])
    text = (await client.call("things")).text
    assert "n: 9" in text and "n: 10" not in text and "and 4 more" in text
    assert (await client.call("nothing")).text == "Nothing returned nothing."


# What the request asks ------------------------------------------------------------------------------------------------


async def test_tool_choice() -> None:
    client = ChatClient(model(), tools=[TravelDesk()], return_direct={STATUS: False})
    none = await client.call("Status of TR001", options={"tool_choice": "none"})
    assert calls_of(none) == [] and "may not call tools" in none.text
    required = await client.call("Hello", options={"tool_choice": "required"})
    assert len(calls_of(required)) == 1 and required.stop_reason == "final"
    named = await client.call("Hello", options={"tool_choice": BUDGET})
    assert calls_of(named) == [(BUDGET, {})] and named.stop_reason == "final"
    unknown = await client.call("Status of TR001", options={"tool_choice": "nonexistent"})
    assert calls_of(unknown) == []


async def test_a_forced_call_without_its_arguments_is_answered_in_words() -> None:
    client = ChatClient(model(), tools=[get_weather])
    response = await client.call("Hello", options={"tool_choice": "required"})
    assert calls_of(response) == [("get_weather", {})]
    assert response.text.startswith("Get weather could not do it: Invalid arguments") and "city" in response.text


async def test_one_call_per_answer_when_parallel_calls_are_off() -> None:
    client = ChatClient(model(), tools=[TravelDesk()], return_direct={STATUS: False})
    response = await client.call("Status of TR001 and TR002", options={"parallel_tool_calls": False})
    per_answer = [len(m.tool_calls) for m in response.new_messages if isinstance(m, AssistantMessage)]
    assert per_answer == [1, 1, 0]
    assert "TR001 is approved" in response.text and "TR002 is pending" in response.text


async def test_max_tokens_cuts() -> None:
    response = await ChatClient(model()).call("hello", options={"max_tokens": 3})
    assert response.text == "I am a rule-" and response.stop_reason == "length"


class Request(BaseModel):
    request_id: str
    status: Literal["approved", "pending"]
    amount: int | None = None


async def test_output_from_the_text_or_the_results(run: Any) -> None:
    client = ChatClient(model(), tools=[TravelDesk()], return_direct={STATUS: False})
    response = await run(client, "Status of TR001", output_type=Request)
    assert response.output.request_id == "TR001" and response.output.status == "approved"
    response = await run(ChatClient(model()), "It is TR002: pending, amount 3000", output_type=Request)
    assert response.output == Request(request_id="TR002", status="pending", amount=3000)
    assert (await run(ChatClient(model()), "I have 3 dogs", output_type=int)).output == 3
    assert (await run(ChatClient(model(), tools=[add]), "What is 2 + 3?", output_type=int)).output == 5
    with pytest.raises(OutputError) as caught:
        await run(ChatClient(model()), "Nothing of that kind", output_type=Request)
    assert "rule-based" in caught.value.text


async def test_only_offered_tools_are_called() -> None:
    history: list[Message] = [
        UserMessage(content="weather in Paris"),
        AssistantMessage(tool_calls=(ToolCall("get_weather", {"city": "Paris"}, "c1"),)),
        ToolMessage(call_id="c1", name="get_weather", content="sunny"),
        AssistantMessage(content="Sunny."),
        UserMessage(content="weather in Rome"),
    ]
    response = await ChatClient(model(), tools=[add]).call(history)
    assert calls_of(response) == []
    assert "sunny" not in response.text, "results of earlier questions are not this answer"


async def test_an_argument_that_asks_why_is_told_why() -> None:
    seen: list[str] = []

    @tool
    async def lookup(request_id: str, reasoning: str) -> str:
        """The status of a request."""
        seen.append(reasoning)
        return "ok"

    await ChatClient(model(), tools=[lookup]).call("status of TR001")
    assert seen == ["The words status match the tool lookup."]


# Streaming, usage, determinism ----------------------------------------------------------------------------------------


async def test_it_streams_word_by_word() -> None:
    client = ChatClient(model(), tools=[get_weather])
    async with client.stream("weather in Paris") as stream:
        events = [event async for event in stream]
        response = await stream.response()
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(pieces) == response.text and len(pieces) == len(response.text.split())
    (call,) = [event for event in events if isinstance(event, ToolCallDelta)]
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Paris"}


async def test_usage_is_characters_divided_by_four() -> None:
    response = await ChatClient(model()).call("x" * 41)
    assert response.usage.input_tokens == 11
    assert response.usage.output_tokens == math.ceil(len(response.text) / 4)
    with_tools = await ChatClient(model(), tools=[get_weather]).call("x" * 41)
    assert with_tools.usage.input_tokens is not None
    schema = json.dumps(dict(get_weather.input_schema), ensure_ascii=False)
    assert with_tools.usage.input_tokens == math.ceil((41 + len("get_weather" + get_weather.description + schema)) / 4)


PROGRAM = """
import anyio
from advisorchain import ChatClient
from advisorchain.cli.travel_desk import TravelDesk, TravelDeskInChinese
from advisorchain.models import KeywordModel
for desk in (TravelDesk, TravelDeskInChinese):
    client = ChatClient(KeywordModel(), tools=[desk()])
    for question in ("Status of TR002, and analyze the budget of sales", "北京和上海的差旅预算和TR001的状态"):
        response = anyio.run(client.call, question)
        calls = [call for message in response.new_messages for call in getattr(message, "tool_calls", ())]
        print(response.text, [(call.name, call.arguments) for call in calls])
"""


def test_the_same_question_gives_the_same_answer_in_every_process() -> None:
    def output(seed: str) -> bytes:
        environment = {"PYTHONHASHSEED": seed, "PYTHONUTF8": "1", "PATH": ""}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True, timeout=60
        ).stdout

    assert output("1") == output("2") != b""


async def test_a_slow_pattern_or_a_recursive_schema_does_not_hang(anyio_backend: str) -> None:
    node = {
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/Node"} for name in "abcdefgh"} | {"value": {"type": "integer"}},
    }
    union = {"anyOf": [{"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Node"}]}
    schema = {
        "type": "object",
        "$defs": {"Node": node, "Loop": union},
        "properties": {"tree": {"$ref": "#/$defs/Node"}, "loop": {"$ref": "#/$defs/Loop"}, "gone": {"$ref": "#/no"}},
    }
    tree = Tool.from_schema("plant_tree", lambda arguments: "planted", description="Plant a tree.", input_schema=schema)
    response = await ChatClient(model(), tools=[tree]).call("plant a tree with value 3 " + "a-1 " * 2000)
    assert response.text


def test_a_run_of_blanks_is_no_burden() -> None:
    start = time.process_time()
    spans = _clauses("first" + " " * 50_000 + "and" + " " * 50_000 + "second" + " " * 50_000)
    assert spans[0] == (0, 5) and len(spans) == 2
    assert time.process_time() - start < 1  # quadratic, it takes minutes


async def test_300_tools_are_no_burden(anyio_backend: str) -> None:
    def handler(arguments: dict[str, Any]) -> str:
        return "42"

    many = [
        Tool.from_schema(
            f"tool_{n}", handler, description=f"Does thing {chr(97 + n // 26)}{chr(97 + n % 26)}word.",
            input_schema={"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        )
        for n in range(300)
    ]  # fmt: skip
    response = await ChatClient(model(), tools=many).call("please do ijword with AB-1")
    assert calls_of(response) == [("tool_217", {"id": "AB-1"})]
    started = time.process_time()
    response = await ChatClient(model(), tools=many).call("please do ijword with AB-1, and more of it; " * 400)
    assert calls_of(response) == [("tool_217", {"id": "AB-1"})]
    assert time.process_time() - started < 10, "the work is bounded, however long the text is"


async def test_a_sub_agent_gets_the_whole_question(run: Any) -> None:
    desk = ChatClient(model(), tools=[TravelDesk()])
    as_tool = desk.as_tool("travel_desk", "Answers questions about the status of travel requests.")
    outer = ChatClient(model(), tools=[as_tool])
    response = await run(outer, 'What is the "status" of TR001?')
    assert calls_of(response) == [("travel_desk", {"prompt": 'What is the "status" of TR001?'})]
    assert response.text == "According to travel desk: TR001 is approved. Amount: 5000. Department: engineering."


async def test_the_tool_context_is_no_argument() -> None:
    @tool
    async def whoami(context: ToolContext) -> str:
        """Who am I?"""
        return context.call.name

    assert "whoami" in (await ChatClient(model(), tools=[whoami]).call("whoami")).text
