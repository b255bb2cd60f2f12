"""`ToolSearchAdvisor`: what the model sees in every round, what runs, and who shares what."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisorchain import (
    Advisor,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ContextKey,
    Order,
    ProviderPart,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolInvocation,
    ToolMessage,
    ToolNext,
    ToolRegistry,
    ToolResult,
    UserMessage,
    chat_advisor,
    tool_advisor,
)
from advisorchain.advisors import (
    CircuitBreakerAdvisor,
    MemoryAdvisor,
    ToolCacheAdvisor,
    ToolFilterAdvisor,
    ToolSearchAdvisor,
)
from advisorchain.advisors.tool_search import GUIDANCE
from advisorchain.memory import InMemoryStore, SqliteStore
from advisorchain.memory.store import History
from advisorchain.testing import ScriptedModel
from advisorchain.tool_index import Bm25Index, ToolHit
from advisorchain.tool_index.search_tool import NAME

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def made(name: str, description: str, **settings: Any) -> Tool:
    async def handler(arguments: dict[str, Any]) -> str:
        RAN.append(name)
        return f"{name} says {json.dumps(arguments)}"

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    return Tool.from_schema(name, handler, input_schema=schema, description=description, **settings)


WEATHER = made("get_weather", "Current weather in a city.", tags=["weather"])
FORECAST = made("get_forecast", "Weather forecast for the next days.", tags=["weather"])
TRAINS = made("find_trains", "Railway connections between towns.", tags=["travel"])
HOTELS = made("book_hotel", "Reserve accommodation.", tags=["travel"], return_direct=True)
FILLERS = [made(f"filler_{number}", f"Ledger entry, kind {number}.") for number in range(50)]
TOOLS = [*FILLERS[:25], WEATHER, FORECAST, TRAINS, HOTELS, *FILLERS[25:]]


def renamed(name: str, count: int, **settings: Any) -> list[Tool]:
    """Many tools, made quickly."""
    return [
        FILLERS[0].replace(name=f"{name}_{number}", description=f"Ledger entry, kind {number}.", **settings)
        for number in range(count)
    ]


def search(query: Any, **more: Any) -> ToolCall:
    return ToolCall(NAME, {"query": query, **more})


def client_of(
    steps: Iterable[Any], advisor: Any = None, *others: Any, tools: Any = TOOLS, **settings: Any
) -> ChatClient:
    advisors = [advisor or ToolSearchAdvisor(), *others]
    return ChatClient(ScriptedModel(steps), tools=tools, advisors=advisors, **settings)


def shown(client: ChatClient) -> list[list[str]]:
    """The names of the tools that the model saw, request by request."""
    model: Any = client.model
    return [request.tools.names for request in model.requests]


def results(response: ChatResponse[Any]) -> list[str]:
    return [message.text for message in response.new_messages if isinstance(message, ToolMessage)]


def as_sent(request: ChatRequest) -> tuple[str, str]:
    """What an adapter would send: the tools and the messages, as text."""
    tools = [[tool.name, tool.description, dict(tool.input_schema)] for tool in request.tools]
    messages = [
        [message.role, message.text, [[c.name, c.arguments] for c in getattr(message, "tool_calls", ())]]
        for message in request.messages
    ]
    return json.dumps(tools)[:-1], json.dumps(messages)[:-1]  # without the bracket, so that one may go on with another


# What the model sees --------------------------------------------------------------------------------------------------


async def test_below_the_threshold_nothing_happens(run: Any) -> None:
    client = client_of(["Hello."], ToolSearchAdvisor(threshold=len(TOOLS)), system="Be brief.")
    await run(client, "Hi")
    assert shown(client) == [[tool.name for tool in TOOLS]]
    assert as_sent(client.model.requests[0])[1] == '[["system", "Be brief.", []], ["user", "Hi", []]'  # type: ignore[attr-defined]


async def test_what_the_model_sees_byte_for_byte(run: Any) -> None:
    steps = [[search("weather in a city", limit=1)], [ToolCall("get_weather", {"city": "Lisbon"})], "Sunny."]
    client = client_of(steps, ToolSearchAdvisor(always=["filler_7"], max_results=5), system="Be brief.")
    response = await run(client, "Weather in Lisbon?")
    assert response.text == "Sunny."
    query = {"type": "string", "description": "What the tool should do, in a few words"}
    limit = {"type": "integer", "description": "At most so many tools; default 5"}
    category = {"type": "string", "description": "Only tools of this category: travel, weather"}
    properties = {"query": query, "limit": limit, "category": category}
    plain = {"type": "object", "properties": {"city": {"type": "string"}}}
    head = [
        [
            "tool_search", "Find tools that are not shown. The tools found can be called from then on.",
            {"type": "object", "properties": properties, "required": ["query"]},
        ],
        ["filler_7", "Ledger entry, kind 7.", plain],
    ]  # fmt: skip
    found = [*head, ["get_weather", "Current weather in a city.", plain]]
    guidance = (
        "Be brief.\n\nOnly some of your tools are shown; when none of them does what you need, find the right one with "
        "tool_search first."
    )
    messages: list[Any] = [["system", guidance, []], ["user", "Weather in Lisbon?", []]]
    first = [
        ["assistant", "", [["tool_search", {"query": "weather in a city", "limit": 1}]]],
        ["tool", "Found 1 tool, which you can call now:\n- get_weather: Current weather in a city.", []],
    ]
    second = [
        ["assistant", "", [["get_weather", {"city": "Lisbon"}]]],
        ["tool", 'get_weather says {"city": "Lisbon"}', []],
    ]
    seen = [as_sent(request) for request in client.model.requests]  # type: ignore[attr-defined]
    assert seen == [
        (json.dumps(head)[:-1], json.dumps(messages)[:-1]),
        (json.dumps(found)[:-1], json.dumps([*messages, *first])[:-1]),
        (json.dumps(found)[:-1], json.dumps([*messages, *first, *second])[:-1]),
    ]


@pytest.mark.parametrize("system", [None, "Be brief."])
async def test_three_searches_only_ever_append(run: Any, system: str | None) -> None:
    steps: list[Any] = [
        [search("railway connections")], [search("weather forecast", category="weather")],
        [search("railway accommodation", category="TRAVEL")], [ToolCall("find_trains", {})], "Done.",
    ]  # fmt: skip
    client = client_of(steps, system=system)
    response = await run(client, "Plan a trip")
    assert response.text == "Done."
    seen = [as_sent(request) for request in client.model.requests]  # type: ignore[attr-defined]
    for (tools, messages), (next_tools, next_messages) in pairwise(seen):
        assert next_tools.startswith(tools)
        assert next_messages.startswith(messages)
    assert shown(client) == [
        [NAME],
        [NAME, "find_trains"],
        [NAME, "find_trains", "get_forecast", "get_weather"],
        [NAME, "find_trains", "get_forecast", "get_weather", "book_hotel"],
        [NAME, "find_trains", "get_forecast", "get_weather", "book_hotel"],
    ]


async def test_nothing_new_gives_the_very_same_tools(run: Any) -> None:
    client = client_of([[search("railway")], [search("railway")], "No.", [search("railway")], "No."])
    await run(client, "a")
    await run(client, "b")
    sets = [request.tools for request in client.model.requests]  # type: ignore[attr-defined]
    assert sets[0] is sets[3]
    assert sets[1] is sets[2] is sets[4]


async def test_without_guidance_and_with_another(run: Any) -> None:
    for guidance in (None, "Search!"):
        client = client_of(["Hello."], ToolSearchAdvisor(guidance=guidance))
        await run(client, "Hi")
        texts = [message.text for message in client.model.requests[0].messages]  # type: ignore[attr-defined]
        assert texts == ([guidance] if guidance else []) + ["Hi"]


class Slow(Bm25Index):
    """Takes the longer, the shorter the query; counts what it is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[int] = []
        self.removed: list[str] = []
        self.fails = 0
        self.hangs = False
        self.started = 0
        self.begun = anyio.Event()

    async def add(self, tools: Any) -> None:
        tools = list(tools)
        self.started += 1
        self.begun.set()
        if self.hangs:
            self.hangs = False
            await anyio.sleep_forever()
        if self.fails:
            self.fails -= 1
            raise ConnectionError("no embeddings")
        await anyio.sleep(0.01)
        await super().add(tools)
        self.added.append(len(tools))

    async def remove(self, names: Any) -> None:
        names = list(names)
        self.removed += names
        await super().remove(names)

    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        await anyio.sleep(0.05 / len(query))
        return await super().search(query, k, filters)


async def test_searches_at_once_are_taken_in_the_order_of_their_calls(run: Any) -> None:
    calls = [search("railway"), search("weather forecast for the next days", limit=1), search("accommodation")]
    client = client_of([calls, "Done."], ToolSearchAdvisor(Slow()))
    await run(client, "Plan")
    assert shown(client)[1] == [NAME, "find_trains", "get_forecast", "book_hotel"]


async def test_a_limit_is_clamped(run: Any) -> None:
    for limit, count in ((2, 2), (0, 1), (-5, 1), (10**9, 3), ("2", 2), (2.9, 2), ("many", 3), (None, 3), ([], 3)):
        client = client_of([[search("ledger entry", limit=limit)], "Done."], ToolSearchAdvisor(max_results=3))
        await run(client, "Go")
        assert len(shown(client)[1]) == 1 + count, limit


async def test_what_hardly_fits_is_left_out(run: Any) -> None:
    class Scored(Bm25Index):
        async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
            return [ToolHit("get_weather", 10.0), ToolHit("find_trains", 1.5), ToolHit("book_hotel", 1.4)]

    for share, names in ((None, ["get_weather", "find_trains"]), (0, ["get_weather", "find_trains", "book_hotel"])):
        settings: dict[str, Any] = {} if share is None else {"min_share": share}
        client = client_of([[search("weather")], "Done."], ToolSearchAdvisor(Scored, **settings))
        await run(client, "Go")
        assert shown(client)[1] == [NAME, *names]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be one JSON object"),
        ({}, "query: say in a few words"),
        ({"query": "  "}, "query: say in a few words"),
        ({"query": ["weather"]}, "query: say in a few words"),
        ({"query": "qqq"}, "No tool found. Search again with other words"),
        ({"query": "weather", "category": "travel"}, "No tool found in the category 'travel'."),
        ({"query": "railway", "category": "zoo"}, "No category 'zoo' (there are: travel, weather); searched in all"),
        ({"query": "railway", "category": ["x"], "extra": 1}, "- find_trains: Railway connections between towns."),
        ({"query": "\ud800 " + "x" * 100_000}, "No tool found"),
    ],
)
async def test_a_search_called_with_garbage(run: Any, arguments: Any, text: str) -> None:
    client = client_of([[ToolCall(NAME, arguments)], "Done."])
    response = await run(client, "Go")
    assert response.text == "Done."
    assert text in results(response)[0]
    assert len(shown(client)[1]) <= 2


async def test_no_category_where_no_tool_has_one(run: Any) -> None:
    client = client_of([[search("ledger", category="x", limit=1)], "Done."], tools=FILLERS)
    response = await run(client, "Go")
    assert "category" not in client.model.requests[0].tools.get(NAME).input_schema["properties"]  # type: ignore[attr-defined]
    assert "No category 'x' (there are none); searched in all tools.\nFound 1 tool" in results(response)[0]


async def test_descriptions_are_one_line(run: Any) -> None:
    long = made("long_one", "Zebra facts.\n\nAnd " + "much " * 100)
    client = client_of([[search("zebra")], "Done."], tools=[*FILLERS, long])
    response = await run(client, "Go")
    lines = results(response)[0].split("\n")
    assert len(lines) == 2
    assert lines[1].startswith("- long_one: Zebra facts. And much much")
    assert lines[1].endswith("…")
    assert len(lines[1]) == len("- long_one: ") + 100


# What runs ------------------------------------------------------------------------------------------------------------


async def test_a_direct_tool_found_by_search_answers(run: Any) -> None:
    client = client_of([[search("accommodation")], [ToolCall("book_hotel", {"city": "Rome"})]])
    response = await run(client, "A room in Rome")
    assert (response.text, response.stop_reason) == ('book_hotel says {"city": "Rome"}', "return_direct")


async def test_a_hidden_tool_runs_and_is_shown_from_then_on(run: Any) -> None:
    client = client_of(
        [[ToolCall("find_trains", {}), ToolCall("get_weather", {})], [ToolCall("find_trains", {})], "Done."]
    )
    response = await run(client, "Go")
    assert results(response) == ["find_trains says {}", "get_weather says {}", "find_trains says {}"]
    assert shown(client) == [[NAME], [NAME, "find_trains", "get_weather"], [NAME, "find_trains", "get_weather"]]


async def test_a_hidden_tool_keeps_its_properties(run: Any) -> None:
    client = client_of([[ToolCall("book_hotel", {})]])
    assert (await run(client, "Go")).stop_reason == "return_direct"
    far = made("far_away", "Something remote.", source="server", trusted=False, max_result_chars=6)
    client = client_of([[ToolCall("far_away", {})], "Done."], tools=[*FILLERS, far])
    message = (await run(client, "Go")).new_messages[1]
    assert (message.source, message.trusted) == ("server", False)
    assert message.text.startswith("far_aw")
    assert "far_away says" not in message.text


async def test_hidden_tools_that_must_not_run_beside_others_do_not(run: Any) -> None:
    running: list[str] = []

    def lonely(name: str) -> Tool:
        async def handler(arguments: dict[str, Any]) -> str:
            running.append(name)
            await anyio.sleep(0.01)
            assert running == [name]
            running.clear()
            return "alone"

        return Tool.from_schema(name, handler, description="Lonely.", parallel=False)

    client = client_of(
        [[ToolCall("one", {}), ToolCall("two", {})], "Done."], tools=[*FILLERS, lonely("one"), lonely("two")]
    )
    assert results(await run(client, "Go")) == ["alone", "alone"]


async def test_without_auto_load_the_model_is_told_to_search(run: Any) -> None:
    steps = [[ToolCall("find_trains", {}), search("weather", limit=1)], [ToolCall("get_weather", {})], "Done."]
    client = client_of(steps, ToolSearchAdvisor(auto_load=False))
    response = await run(client, "Go")
    assert results(response)[0] == (
        "The tool 'find_trains' was not shown to you. Find it with tool_search first; then you know its arguments."
    )
    assert RAN == ["get_weather"]
    assert shown(client)[1:] == [[NAME, "get_weather"]] * 2


@pytest.mark.parametrize("auto_load", [True, False])
async def test_an_invented_tool_is_unknown(run: Any, auto_load: bool) -> None:
    client = client_of([[ToolCall("get_moon", {})], "Done."], ToolSearchAdvisor(auto_load=auto_load))
    response = await run(client, "Go")
    assert results(response) == ["There is no tool 'get_moon'. Available tools: tool_search."]


async def test_a_forced_tool_is_shown(run: Any) -> None:
    client = client_of([[ToolCall("find_trains", {})], "Done."])
    await run(client, "Go", options={"tool_choice": "find_trains"})
    assert shown(client) == [[NAME, "find_trains"]] * 2
    assert client.model.requests[0].options.tool_choice == "find_trains"  # type: ignore[attr-defined]


async def test_calls_despite_the_choice_none_do_not_run(run: Any) -> None:
    client = client_of([[ToolCall("find_trains", {})], "Done."])
    await run(client, "Go", options={"tool_choice": "none"})
    assert RAN == []


async def test_what_the_filter_hides_is_neither_found_nor_run(run: Any) -> None:
    steps = [
        [search("railway accommodation weather")],
        [ToolCall("find_trains", {}), ToolCall("get_weather", {})],
        "Done.",
    ]
    for order in (Order.TOOL_FILTER, Order.TOOL_SEARCH + 1):
        RAN.clear()
        hides = ToolFilterAdvisor(deny=["travel"], order=order)
        client = client_of(steps, ToolSearchAdvisor(), hides)
        response = await run(client, "Go", options={"tool_choice": "auto"})
        assert RAN == ["get_weather"]
        assert "There is no tool 'find_trains'." in results(response)[1]
        assert all("find_trains" not in names and "book_hotel" not in names for names in shown(client))
        if order == Order.TOOL_FILTER:
            assert "find_trains" not in results(response)[0]


async def test_a_tool_removed_while_in_use(run: Any) -> None:
    @chat_advisor(order=Order.TOOL_SEARCH - 1)
    async def removes(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        if request.round > 2:
            request = request.replace(tools=[tool for tool in request.tools if tool.name != "find_trains"])
        return await call_next(request)

    again = [ToolCall("find_trains", {"city": "again"})]
    steps = [[search("railway")], [ToolCall("find_trains", {}), search("weather")], again, [search("railway")], "Done."]
    client = client_of(steps, None, removes)
    response = await run(client, "Go")
    assert shown(client)[1] == [NAME, "find_trains"]
    assert shown(client)[2] == [NAME, "get_weather", "get_forecast"]
    assert RAN == ["find_trains"]
    assert "There is no tool 'find_trains'" in results(response)[3]
    assert results(response)[4].startswith("No tool found")


# The chain around it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [Order.MEMORY, Order.MEMORY_INSIDE])
async def test_with_memory_nothing_depends_on_the_history(run: Any, order: int) -> None:
    steps = [[search("railway")], [ToolCall("find_trains", {})], "One.", [search("weather")], "Two."]
    client = client_of(steps, None, MemoryAdvisor(InMemoryStore(), order=order), system="S")
    await run(client, "a", conversation_id="c")
    await run(client, "b", conversation_id="c")
    assert shown(client) == [
        [NAME], [NAME, "find_trains"], [NAME, "find_trains"], [NAME], [NAME, "get_weather", "get_forecast"],
    ]  # fmt: skip
    roles = [message.role for message in client.model.requests[3].messages]  # type: ignore[attr-defined]
    turn = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert roles == ["system", *(turn if order == Order.MEMORY_INSIDE else ["user", "assistant"]), "user"]


async def test_tools_in_the_callers_hands() -> None:
    client = client_of([[search("railway")], [ToolCall("find_trains", {}), ToolCall("get_weather", {})], "Done."])
    response = await client.call("Go", tool_loop=False)
    assert response.tool_calls[0].name == NAME
    execution = await client.execute_tools(response)
    response = await client.call(execution.messages, tool_loop=False)
    execution = await client.execute_tools(response)
    assert [result.content for result in execution.results] == ["find_trains says {}", "get_weather says {}"]
    assert (await client.call(execution.messages, tool_loop=False)).text == "Done."
    assert shown(client) == [[NAME], [NAME, "find_trains"], [NAME, "find_trains", "get_weather"]]


async def test_a_sub_agent_has_discoveries_of_its_own(run: Any) -> None:
    advisor = ToolSearchAdvisor()
    inner = client_of([[search("weather", limit=1)], [ToolCall("get_weather", {})], "Sunny."], advisor)
    agent = inner.as_tool("railway_agent", "Railway agent.")
    outer = client_of([[search("railway", limit=1)], [ToolCall("railway_agent", {"prompt": "Go"})], "Done."], advisor,
                      tools=[*FILLERS, agent])  # fmt: skip
    response = await run(outer, "Go")
    assert results(response)[1] == "Sunny."
    assert shown(inner) == [[NAME], [NAME, "get_weather"], [NAME, "get_weather"]]
    assert shown(outer) == [[NAME], [NAME, "railway_agent"], [NAME, "railway_agent"]]


async def test_with_a_cache_and_a_breaker(run: Any) -> None:
    cache = ToolCacheAdvisor(scope=lambda invocation: "all", tools=lambda tool: True)
    down = Tool.from_schema("find_trains", _fails, description="Railway connections.")
    tools = [down if tool is TRAINS else tool for tool in TOOLS]
    steps: list[Any] = [[search("railway")], [ToolCall("find_trains", {})], [ToolCall("find_trains", {})], "Done."]
    breaker = CircuitBreakerAdvisor(failures=1)
    client = client_of([*steps, *steps], None, cache, breaker, tools=tools)
    for _ in range(2):  # the second time, the search is answered by the cache
        response = await run(client, "Go")
        assert response.text == "Done."
        assert "- find_trains: Railway connections." in results(response)[0]
        assert "CircuitOpenError" in results(response)[2]
    assert "find_trains" not in shown(client)[2]  # the breaker left it out
    assert breaker.states()["find_trains"] == "open"


async def test_a_search_answered_by_the_cache_shows_its_tools(run: Any) -> None:
    cache = ToolCacheAdvisor(scope=lambda invocation: "all")
    client = client_of([[search("railway")], "Done.", [search("railway")], "Done."], None, cache)
    await run(client, "Go")
    response = await run(client, "Go")
    assert response.new_messages[1].text.endswith("- find_trains: Railway connections between towns.")
    assert shown(client) == [[NAME], [NAME, "find_trains"]] * 2


async def _fails(arguments: dict[str, Any]) -> str:
    raise ConnectionError("down")


async def test_another_loop_and_forks_inside_it(run: Any) -> None:
    class TwiceAtOnce(Advisor):
        """Asks twice at once, in child contexts, and takes the first answer."""

        order = Order.GUARD_ROUND

        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            answers: list[ChatResponse[Any]] = []

            async def ask() -> None:
                answers.append(await call_next(request.muted().fork()))

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                group.start_soon(ask)
            return answers[0]

    def step(request: ChatRequest) -> Any:
        return [search("railway", n=request.round)] if request.round == 1 else "Done."

    client = client_of([step] * 4, None, TwiceAtOnce())
    await run(client, "Go")
    assert shown(client) == [[NAME], [NAME], [NAME, "find_trains"], [NAME, "find_trains"]]


async def test_a_loop_that_hands_no_results_on(run: Any) -> None:
    class OwnLoop(Advisor):
        order = Order.TOOL_LOOP
        is_tool_loop = True

        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            number = 0
            while True:
                number += 1
                sent = request.replace(round=number, offers={})
                response = await call_next(sent)
                if not response.tool_calls:
                    return response
                added: list[Any] = [response.message]
                for call in response.tool_calls:
                    tool = sent.offers[response.message.id][0].get(call.name)  # type: ignore[index]
                    assert tool is not None
                    result = await request.execute(ToolInvocation(call, tool, sent, number))
                    added.append(result.stamped(call.id, call.name, False, "local", True).message())
                request = request.replace(messages=(*request.messages, *added))

    client = client_of([[search("railway")], [ToolCall("find_trains", {})], "Done."], None, OwnLoop())
    assert (await client.call("Go")).text == "Done."
    assert shown(client) == [[NAME], [NAME, "find_trains"], [NAME, "find_trains"]]


# From turn to turn ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [Order.MEMORY, Order.MEMORY_INSIDE])
async def test_a_conversation_survives_a_restart(run: Any, tmp_path: Path, order: int) -> None:
    found: list[list[list[str]]] = []
    for steps in ([[search("railway"), search("weather")], "One."], [[search("accommodation")], "Two."], ["Three."]):
        store = SqliteStore(tmp_path / "memory.db")
        client = client_of(steps, ToolSearchAdvisor(scope="conversation"), MemoryAdvisor(store, order=order))
        await run(client, "Go", conversation_id="c")
        found.append(shown(client))
        history = await store.load("c")
        store.close()
    kept = ["find_trains", "get_weather", "get_forecast"]
    assert found == [
        [[NAME], [NAME, *kept]], [[NAME, *kept], [NAME, *kept, "book_hotel"]], [[NAME, *kept, "book_hotel"]],
    ]  # fmt: skip
    assert [message.role for message in history].count("user") == 3
    assert "find_trains" not in [message.text for message in history]


async def test_other_conversations_see_nothing_and_a_deleted_one_is_forgotten(run: Any) -> None:
    store = InMemoryStore()
    client = client_of([[search("railway")], *["Done."] * 4], ToolSearchAdvisor(scope="conversation", store=store))
    for conversation in ("a", "b", "a", None):
        await run(client, "Go", conversation_id=conversation)
    assert shown(client) == [[NAME], [NAME, "find_trains"], [NAME], [NAME, "find_trains"], [NAME]]
    await store.delete("a")
    client = client_of(["Done."], ToolSearchAdvisor(scope="conversation", store=store))
    await run(client, "Go", conversation_id="a")
    assert shown(client) == [[NAME]]


USER = ContextKey[str]("test.user")


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("scope", [USER, lambda request: request.context.get(USER)], ids=["key", "function"])
async def test_a_scope_of_users(run: Any, scope: Any, stored: bool) -> None:
    advisor = ToolSearchAdvisor(scope=scope, store=InMemoryStore() if stored else None, max_kept=2)
    client = client_of([[search("railway")], "1", "2", "3", "4", [search("weather")], "5", "6"], advisor)
    for context in ({USER: "ada"}, {USER: "bob"}, {USER: "ada"}, {}, {USER: "ada"}, {USER: "ada"}):
        await run(client, "Go", context=context)
    trains, weather = [NAME, "find_trains"], ["get_weather", "get_forecast"]
    assert shown(client) == [[NAME], trains, [NAME], trains, [NAME], trains, [*trains, *weather], [NAME, *weather]]


@pytest.mark.parametrize("stored", [True, False])
async def test_what_is_found_once_more_is_the_latest_again(run: Any, stored: bool) -> None:
    advisor = ToolSearchAdvisor(scope=USER, store=InMemoryStore() if stored else None, max_kept=3)
    railway, rest = [search("railway")], [search("weather"), search("accommodation")]
    client = client_of([railway, "1", rest, "2", railway, "3", "4"], advisor)
    for _ in range(4):
        await run(client, "Go", context={USER: "ada"})
    assert shown(client)[-1] == [NAME, "get_forecast", "book_hotel", "find_trains"]


async def test_what_a_system_message_has_beside_its_text_stays(run: Any) -> None:
    mark = ProviderPart(provider="acme", type="cache", data={"ttl": 60})
    client = client_of(["Hello."])
    await run(client, [SystemMessage(content=(TextPart(text="Be brief."), mark)), UserMessage(content="Hi")])
    (request,) = client.model.requests  # type: ignore[attr-defined]
    assert mark in request.messages[0].content and request.messages[0].text == f"Be brief.\n\n{GUIDANCE}"


async def test_a_scope_that_is_no_text() -> None:
    client = client_of(["Done."], ToolSearchAdvisor(scope=lambda request: 7))  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigurationError, match="scope of advisor 'tool_search' gave 7"):
        await client.call("Go")


async def test_a_store_that_fails_costs_a_search_not_the_turn(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(InMemoryStore):
        async def load(self, conversation_id: str, **settings: Any) -> History:
            raise OSError("disk")

        async def append(self, *arguments: Any, **settings: Any) -> None:
            raise OSError("disk")

    client = client_of([[search("railway")], "Done."], ToolSearchAdvisor(scope="conversation", store=Broken()))
    with caplog.at_level(logging.WARNING):
        assert (await run(client, "Go", conversation_id="c")).text == "Done."
    assert shown(client) == [[NAME], [NAME, "find_trains"]]
    assert [record.message for record in caplog.records] == [
        "Which tools 'c' has found could not be loaded", "Which tools 'c' has found could not be stored",
    ]  # fmt: skip


async def test_the_first_guess_saves_the_search(run: Any) -> None:
    client = client_of([[ToolCall("find_trains", {})], "Done."], ToolSearchAdvisor(prefetch=1, always=["filler_1"]))
    await run(client, "Which railway connections are there?")
    assert shown(client) == [[NAME, "filler_1", "find_trains"]] * 2


async def test_a_first_guess_that_fails_is_none(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    index = Slow()
    index.fails = 1
    client = client_of([[search("railway")], "Done."], ToolSearchAdvisor(index, prefetch=3))
    assert (await run(client, "railway")).text == "Done."
    assert shown(client) == [[NAME], [NAME, "find_trains"]]
    assert "could not search with the user's message" in caplog.text


# Catalogues and their indexes -----------------------------------------------------------------------------------------


class Indexes:
    """Makes indexes, and remembers them."""

    def __init__(self) -> None:
        self.made: list[Slow] = []

    def __call__(self) -> Slow:
        self.made.append(Slow())
        return self.made[-1]

    @property
    def added(self) -> list[int]:
        return [count for index in self.made for count in index.added]


def copies() -> list[Tool]:
    """The same tools as other objects, as a tenant's provider would make them, in another order."""
    return [made(tool.name, tool.description, tags=tool.tags) for tool in reversed(TOOLS)]


async def test_one_index_for_all_who_have_the_same_tools(run: Any) -> None:
    indexes = Indexes()
    advisor = ToolSearchAdvisor(indexes)
    clients = [client_of([[search("railway")], "Done."] * 5, advisor, tools=tools) for tools in (TOOLS, copies())]
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(clients[number % 2].call, "Go")
    await run(client_of([[search("railway")], "Done."], advisor), "Go")
    assert indexes.added == [len(TOOLS)]
    assert sorted(map(len, shown(clients[0]))) == [1] * 5 + [2] * 5


async def test_a_changed_catalogue_is_indexed_once(run: Any) -> None:
    indexes = Indexes()
    registry = ToolRegistry(TOOLS)
    client = client_of(
        [[search("zebra railway")], "Done."] * 4, ToolSearchAdvisor(indexes, max_results=2), tools=[registry]
    )
    await run(client, "Go")
    registry.register(made("count_zebras", "How many zebras."))
    registry.unregister("find_trains")
    await run(client, "Go")
    await run(client, "Go")
    registry.register(TRAINS)
    registry.unregister("count_zebras")
    await run(client, "Go")  # as at first: still known
    assert indexes.added == [len(TOOLS), len(TOOLS)]
    assert [names[1:] for names in shown(client)[1::2]] == [
        ["find_trains"], ["count_zebras"], ["count_zebras"], ["find_trains"],
    ]  # fmt: skip


def test_event_loops_in_other_threads_share_it() -> None:
    advisor = ToolSearchAdvisor()
    clients = [client_of([[search("railway")], [ToolCall("find_trains", {})], "Done."] * 5, advisor) for _ in range(4)]

    def turns(client: ChatClient, backend: str) -> list[str]:
        async def run() -> list[str]:
            return [(await client.call("Go")).text for _ in range(5)]

        return anyio.run(run, backend=backend)

    with ThreadPoolExecutor(4) as pool:
        backends = ["asyncio", "trio", "asyncio", "trio"]
        assert list(pool.map(turns, clients, backends)) == [["Done."] * 5] * 4
    for client in clients:
        assert shown(client) == [[NAME], [NAME, "find_trains"], [NAME, "find_trains"]] * 5
    assert len(advisor._indexes) == 1


@pytest.mark.parametrize("shared", [False, True])
async def test_tenants_with_other_tools_never_meet(run: Any, shared: bool) -> None:
    def tenant(name: str) -> list[Tool]:
        return [*FILLERS, made(f"{name}_report", "The report."), made("common_report", f"The report of {name}.")]

    tenants = {name: tenant(name) for name in ("ada", "bob")}
    advisor = ToolSearchAdvisor(Slow() if shared else Slow)
    found: dict[str, Any] = {name: [] for name in tenants}

    async def turn(name: str) -> None:
        client = client_of([[search("report")], [ToolCall("ada_report", {})], "Done."], advisor, tools=tenants[name])
        response = await type(run)(run.mode)(client, "Go")  # one for each turn, because they run at once
        found[name].append((sorted(shown(client)[1]), results(response)))

    async with anyio.create_task_group() as group:
        for name in ("ada", "bob", "ada", "bob"):
            group.start_soon(turn, name)
    for name, turns in found.items():
        for names, texts in turns:
            assert names == sorted([NAME, f"{name}_report", "common_report"])
            assert f"The report of {name}." in texts[0]
            other = "bob" if name == "ada" else "ada"
            assert other not in texts[0]
            assert texts[1].startswith("ada_report says" if name == "ada" else "There is no tool 'ada_report'")


async def test_tenants_that_share_an_index_find_their_own_tool_of_a_name_by_its_own_text(run: Any) -> None:
    one = Slow()
    advisor = ToolSearchAdvisor(one)
    tenants = [("railway", "Railway timetable."), ("orchid", "Orchid catalogue."), ("railway", "Railway timetable.")]
    for word, description in [*tenants, *tenants]:
        client = client_of([[search(word)], "Done."], advisor, tools=[*FILLERS, made("lookup", description)])
        response = await run(client, "Go")
        assert shown(client)[1] == [NAME, "lookup"]
        assert f"- lookup: {description}" in results(response)[0]
    assert one.added == [51, 1, 1, 1, 1]  # only what another tenant has taken the place of; the same again: nothing


@pytest.mark.parametrize("shared", [False, True])
async def test_only_the_latest_indexes_are_kept(run: Any, shared: bool) -> None:
    one, indexes = Slow(), Indexes()
    advisor = ToolSearchAdvisor(one if shared else indexes, max_indexes=2)
    for number in (1, 2, 3, 2, 1):
        tools = [*FILLERS, made(f"special_{number}", "Special.")]
        client = client_of([[search("special")], "Done."], advisor, tools=tools)
        await run(client, "Go")
        assert shown(client)[1] == [NAME, f"special_{number}"]
    if shared:
        assert one.added == [51, 1, 1, 1]  # only what is new
        assert one.removed == ["special_1", "special_3"]
    else:
        assert indexes.added == [51, 51, 51, 51]


async def test_a_build_that_is_cancelled_is_taken_over(run: Any) -> None:
    index = Slow()
    index.hangs = True
    advisor = ToolSearchAdvisor(index)
    client = client_of([[search("railway")], "Done."], advisor)
    async with anyio.create_task_group() as waiting, anyio.create_task_group() as building:
        building.start_soon(client_of([[search("railway")]], advisor).call, "Go")
        await index.begun.wait()
        waiting.start_soon(run, client, "Go")
        await anyio.sleep(0.01)
        assert len(client.model.requests) == 1  # type: ignore[attr-defined]
        assert index.started == 1
        building.cancel_scope.cancel()
    assert shown(client)[1] == [NAME, "find_trains"]
    assert index.added == [len(TOOLS)]


async def test_an_index_that_fails_gives_an_error_result_and_is_built_again(run: Any) -> None:
    index = Slow()
    index.fails = 1
    client = client_of([[search("railway")], [search("railway ")], "Done."], ToolSearchAdvisor(index))
    response = await run(client, "Go")
    assert results(response)[0] == (
        "The tool 'tool_search' failed (ConnectionError). The details are in the application's log."
    )
    assert shown(client)[1:] == [[NAME], [NAME, "find_trains"]]


async def test_a_query_that_the_index_refuses_does_not_end_the_turn(run: Any) -> None:
    class Refuses(Bm25Index):
        async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
            raise ConfigurationError("No such pattern.")

    client = client_of([[search("(")], "Done."], ToolSearchAdvisor(Refuses))
    assert results(await run(client, "Go")) == ["No such pattern."]


async def test_a_model_that_writes_patterns(run: Any) -> None:
    steps = [[search("^get_(weather|fore)")], [search("(")], "Done."]
    client = client_of(steps, ToolSearchAdvisor("regex"))
    response = await run(client, "Go")
    assert sorted(shown(client)[1]) == ["get_forecast", "get_weather", NAME]
    query = client.model.requests[0].tools.get(NAME).input_schema["properties"]["query"]  # type: ignore[attr-defined]
    assert query["description"].startswith("A regular expression")
    assert response.text == "Done."


async def test_other_languages(run: Any) -> None:
    far = [
        made("hotel_zh", "预订酒店房间。"),
        made("hotel_ja", "ホテルの部屋を予約する。"),
        made("hotel_ar", "حجز غرفة في الفندق."),
    ]
    for query, name in (("酒店", "hotel_zh"), ("ホテルを予約", "hotel_ja"), ("غرفة", "hotel_ar")):
        client = client_of([[search(query)], "Done."], tools=[*FILLERS, *far])
        await run(client, "Go")
        assert name in shown(client)[1]


async def test_only_so_many_open_turns_are_remembered() -> None:
    advisor = ToolSearchAdvisor()
    responses = []
    client = client_of([[search("railway")]] * 300, advisor)
    for _ in range(300):
        responses.append(await client.call("Go", tool_loop=False))
    assert len(advisor._left) < 300
    first, last = await client.execute_tools(responses[0]), await client.execute_tools(responses[-1])
    assert first.results[0].content == "The tools of that turn are not known any more."
    assert last.results[0].content.startswith("Found 1 tool")


@pytest.mark.parametrize("threshold", [0, 30])
async def test_no_tools_at_all(run: Any, threshold: int) -> None:
    client = client_of(["Hello."], ToolSearchAdvisor(threshold=threshold), tools=[])
    await run(client, "Hi")
    assert shown(client) == [[]]
    assert len(client.model.requests[0].messages) == 1  # type: ignore[attr-defined]


async def test_ten_thousand_tools_and_two_with_one_description(run: Any) -> None:
    many = renamed("filler", 9_998)
    twins = [made("north_gate", "Open the garden gate."), made("south_gate", "Open the garden gate.")]
    client = client_of([[search("garden gate")], "Done."], tools=[*many, *twins])
    await run(client, "Go")
    assert shown(client) == [[NAME], [NAME, "north_gate", "south_gate"]]


async def test_a_provider_with_five_thousand_tools(run: Any) -> None:
    indexes = Indexes()

    class Provider:
        async def tools(self, request: ChatRequest) -> list[Tool]:
            """As other objects in every turn."""
            return [*renamed("far", 4_999, source="far"), made("far_trains", "Railway connections.", source="far")]

    steps = [[search("railway", category="far")], [ToolCall("far_trains", {})], "Done."] * 2
    client = client_of(steps, ToolSearchAdvisor(indexes), tools=[Provider(), TRAINS])
    for _ in range(2):
        assert (await run(client, "Go")).text == "Done."
    assert indexes.added == [5_000 + 1]
    assert RAN == ["far_trains"] * 2
    assert shown(client) == [[NAME], [NAME, "far_trains"], [NAME, "far_trains"]] * 2


async def test_the_memory_of_turns_is_free_again(run: Any) -> None:
    advisor = ToolSearchAdvisor()
    client = client_of([[search("railway")], RuntimeError("x"), [search("railway")], "Done."], advisor)
    with pytest.raises(RuntimeError):
        await run(client, "Go")
    await run(client, "Go")
    assert advisor._turns == {}
    assert not advisor._left


# Settings -------------------------------------------------------------------------------------------------------------


async def test_a_users_tool_of_that_name(run: Any) -> None:
    for tools in ([made(NAME, "Mine.")], [made(NAME, "Mine."), *TOOLS]):
        with pytest.raises(ConfigurationError, match="'tool_search' brings a tool 'tool_search', and there is another"):
            await run(client_of(["Done."], tools=tools), "Go")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"index": "bm26"}, "There is no tool index 'bm26'; did you mean 'bm25'"),
        ({"index": 7}, "index= takes"),
        ({"index": lambda: 7}, "index= must give an index with async add, remove and search, not 7"),
        ({"max_results": 0}, "max_results must be an int of at least 1"),
        ({"min_share": -0.1}, "min_share must be a number of at least 0"),
        ({"min_share": 15}, "min_share is a share, at most 1"),
        ({"threshold": -1}, "threshold must be an int of at least 0"),
        ({"prefetch": 1.5}, "prefetch must be an int"),
        ({"max_kept": 0}, "max_kept must be an int of at least 1"),
        ({"max_indexes": True}, "max_indexes must be an int"),
        ({"always": "get_weather"}, "always must be a list of tool names"),
        ({"always": [TRAINS]}, "always must be a list of tool names"),
        ({"always": 7}, "always must be a list of tool names"),
        ({"scope": "user"}, "scope must be 'turn', 'conversation', a ContextKey"),
        ({"store": InMemoryStore}, "store= takes a memory store"),
        ({"guidance": 7}, "guidance must be a text or None"),
    ],
)
def test_settings_that_are_wrong(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text.replace("(", r"\(")):
        ToolSearchAdvisor(**settings)


def test_it_stands_inside_the_loop() -> None:
    with pytest.raises(ConfigurationError, match="must be inside the tool loop"):
        client_of([], ToolSearchAdvisor(order=400))
    assert client_of([], ToolSearchAdvisor(name="finder")).chain.entries[1].name == "finder"


async def test_what_an_outer_tool_advisor_sees_of_a_search(run: Any) -> None:
    seen: list[ToolResult] = []

    @tool_advisor(order=Order.AUDIT)
    async def watch(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        seen.append(await call_next(invocation))
        return seen[-1]

    await run(client_of([[search("railway")], "Done."], None, watch), "Go")
    assert seen[0].metadata == {"tools_found": ("find_trains",)}
