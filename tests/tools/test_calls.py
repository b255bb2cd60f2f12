"""Whatever a model sends as a tool call: it gets one result for it, and the turn goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatResponse,
    Runtime,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
def nothing() -> str:
    """Takes nothing."""
    return "nothing"


@tool
def keep(data: Any) -> str:
    """Take anything."""
    return type(data).__name__


def in_schema(arguments: dict[str, Any]) -> str:
    """Show what came."""
    return json.dumps(arguments)[:100]


by_schema = Tool.from_schema(
    "by_schema",
    in_schema,
    description="By schema.",
    input_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
)
TOOLS = [add, nothing, keep, by_schema]


async def one(run: Any, call: ToolCall, tools: list[Any] = TOOLS) -> Any:
    """The result that the model reads, after a whole turn."""
    model = ScriptedModel([["I call.", call], "done"])
    response = await run(ChatClient(model, tools=tools), "go")
    assert response.text == "done" and response.stop_reason == "final"
    model.assert_finished()
    (message,) = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    return message


DEEP = '{"data": ' + "[" * 100_000 + "]" * 100_000 + "}"
BIG = json.dumps({"data": "x" * 5_000_000})


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("add", "{", "malformed JSON"),
        ("add", '{"a": 1,}', "malformed JSON"),
        ("add", "a=1", "malformed JSON"),
        ("add", '{"a": "x"}', "a: "),
        ("add", '{"a": 1.5}', "a: "),
        ("add", '{"a": null}', "a: "),
        ("add", '{"a": [1]}', "a: "),
        ("add", "{}", "a: Field required"),
        ("add", None, "a: Field required"),
        ("add", "", "a: Field required"),
        ("add", " \n\t ", "a: Field required"),
        ("add", {}, "a: Field required"),
        ("add", '{"a": 1, "c": 2, "d": 3}', "c: unexpected argument; known arguments: a, b"),
        ("nothing", '{"c": 2}', "c: unexpected argument; known arguments: none"),
        ("add", "[]", "must be one JSON object"),
        ("add", "[1, 2]", "must be one JSON object"),
        ("add", "7", "must be one JSON object"),
        ("add", "null", "must be one JSON object"),
        ("add", '"a"', "must be one JSON object"),
        ("add", "NaN", "Invalid arguments"),
        ("add", '{"a": 1e999}', "a: "),
        ("add", '{"a": ' + "9" * 5000 + "}", "add"),
        ("add", '{"a": "\ud800"}', "add"),
        ("add", '{"a": 1} {"b": 2}', "malformed JSON"),
        ("keep", DEEP, "malformed JSON"),
        ("keep", "[" * 100_000, "malformed JSON"),
        ("keep", "x" * 5_000_000, "malformed JSON"),
        ("by_schema", "{", "not valid JSON"),
        ("by_schema", "[1]", "must be one JSON object, not an array"),
        ("by_schema", "null", "not null"),
        ("by_schema", "true", "not a boolean"),
        ("by_schema", '{"a": "x"}', "a: "),
        ("by_schema", "{}", "'a' is a required property"),
        ("by_schema", None, "'a' is a required property"),
        ("by_schema", '{"a": ' + "[" * 100_000, "not valid JSON"),
        ("by_schema", '{"a": ' + "9" * 5000 + "}", "by_schema"),
        ("missing", {"a": 1}, "There is no tool 'missing'. Available tools: add, nothing, keep, by_schema."),
        ("Add", {"a": 1}, "There is no tool 'Add'"),
        ("", {"a": 1}, "There is no tool ''"),
        ("", None, "There is no tool ''"),
        ("x" * 10_000, None, "There is no tool 'xxx"),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_a_bad_call_gets_an_error_result(run: Any, name: str, arguments: Any, says: str) -> None:
    message = await one(run, ToolCall(name, arguments))
    assert message.is_error and says in message.text and message.name == name
    assert len(message.text) < 6000, "an error does not repeat the arguments at length"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("add", {"a": 1}, "2"),
        ("add", '{"a": "1", "b": 3.0}', "4"),
        ("add", '  {"a": 1}\n', "2"),
        ("nothing", None, "nothing"),
        ("nothing", "", "nothing"),
        ("nothing", "  ", "nothing"),
        ("nothing", {}, "nothing"),
        ("nothing", "{}", "nothing"),
        ("keep", BIG, "str"),
        ("keep", '{"data": null}', "NoneType"),
        ("keep", '{"data": "😀"}', "str"),
        ("by_schema", '{"a": 1, "more": null}', '{"a": 1, "more": null}'),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_a_good_call_runs(run: Any, name: str, arguments: Any, text: str) -> None:
    message = await one(run, ToolCall(name, arguments))
    assert (message.is_error, message.text) == (False, text)


async def test_many_problems_are_told_at_once_but_not_endlessly(run: Any) -> None:
    message = await one(run, ToolCall("add", {f"x{n}": "y" * 10_000 for n in range(100)}))
    assert "a: Field required" in message.text and "and 91 more" in message.text and len(message.text) < 6000


async def test_no_tools_at_all(run: Any) -> None:
    message = await one(run, ToolCall("add", {}), [])
    assert message.text == "There is no tool 'add'. No tools are available."


async def test_an_unknown_tool_lists_only_what_this_request_shows(run: Any) -> None:
    @chat_advisor(order=590)
    async def filtered(request: Any, call_next: Any) -> Any:
        return await call_next(request.replace(tools=[t for t in request.tools if t.name != "nothing"]))

    model = ScriptedModel([[ToolCall("nothing"), ToolCall("ghost")], "done"])
    await run(ChatClient(model, tools=TOOLS, advisors=[filtered]), "go")
    hidden, ghost = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert hidden.is_error and hidden.text == "There is no tool 'nothing'. Available tools: add, keep, by_schema."
    assert ghost.text.endswith("Available tools: add, keep, by_schema.")


async def test_the_list_of_available_tools_is_bounded(run: Any) -> None:
    many = [add.replace(name=f"tool_{n}") for n in range(300)]
    message = await one(run, ToolCall("ghost"), many)
    assert "tool_49" in message.text and "tool_50" not in message.text and message.text.endswith(", ....")


async def test_a_tool_added_by_an_inner_advisor_runs(run: Any) -> None:
    extra = add.replace(name="extra")

    @chat_advisor(order=600)
    async def adding(request: Any, call_next: Any) -> Any:
        return await call_next(request.replace(tools=[*request.tools, extra]))

    model = ScriptedModel([[ToolCall("extra", {"a": 1})], [ToolCall("extra", {"a": 5})], "done"])
    await run(ChatClient(model, advisors=[adding]), "go")
    assert [m.text for m in model.requests[2].messages if isinstance(m, ToolMessage)] == ["2", "6"]


async def test_a_call_that_an_advisor_made_up_runs_only_what_is_offered(run: Any) -> None:
    @chat_advisor(order=700)
    async def inventing(request: Any, call_next: Any) -> Any:
        if request.round > 1:
            return await call_next(request)
        calls = (ToolCall("add", {"a": 1}), ToolCall("ghost"))
        return ChatResponse(AssistantMessage(content="", tool_calls=calls))

    model = ScriptedModel(["done"])
    assert (await run(ChatClient(model, tools=TOOLS, advisors=[inventing]), "go")).text == "done"
    assert [m.is_error for m in model.requests[0].messages if isinstance(m, ToolMessage)] == [False, True]


def nested(levels: int) -> dict[str, Any]:
    """A dict in a dict in a dict."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"data": value}
    return value


@pytest.mark.parametrize(
    "arguments",
    [[1], 7, True, {(1, 2): 3}, {"data": {1, 2}}, {1: 2}, nested(985)],
    ids=["list", "int", "bool", "tuple_key", "set", "int_key", "deep"],
)
@pytest.mark.parametrize("name", ["keep", "nothing", "by_schema"])
async def test_arguments_that_are_no_json(run: Any, name: str, arguments: Any) -> None:
    results: list[Any] = []

    async def model(request: Any) -> ChatResponse[Any]:
        if request.round == 1:
            return ChatResponse(AssistantMessage(tool_calls=(ToolCall(name, arguments),)))
        results.extend(m for m in request.messages if isinstance(m, ToolMessage))
        return ChatResponse(AssistantMessage(content="done"))

    assert (await run(ChatClient(model, tools=TOOLS), "go")).text == "done"
    (message,) = results
    assert message.name == name and (message.is_error or name == "keep")


async def test_a_handler_that_changes_its_arguments(run: Any) -> None:
    def greedy(arguments: dict[str, Any]) -> str:
        arguments["list"].append(arguments.pop("x"))
        return "ok"

    @tool
    def also(data: Any) -> str:
        """Changes what it got."""
        data.clear()
        return "ok"

    made = Tool.from_schema("greedy", greedy, description="Changes what it got.")
    calls = [ToolCall("greedy", {"x": 1, "list": []}), ToolCall("also", {"data": {"y": 2}})]
    model = ScriptedModel([calls, "done"])
    response = await run(ChatClient(model, tools=[made, also]), "go")
    assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == ["ok", "ok"]
    sent = response.new_messages[0].tool_calls
    assert [call.arguments for call in sent] == [{"x": 1, "list": []}, {"data": {"y": 2}}]


@pytest.mark.parametrize("identifier", [None, ""])
async def test_a_call_without_an_id_gets_one(run: Any, identifier: Any) -> None:
    model = ScriptedModel([[ToolCall("add", {"a": 1}, identifier), ToolCall("add", {"a": 2}, identifier)], "done"])
    await run(ChatClient(model, tools=TOOLS), "go")
    sent = model.requests[1].messages[1]
    assert isinstance(sent, AssistantMessage)
    calls = sent.tool_calls
    assert calls[0].id and calls[1].id and calls[0].id != calls[1].id


@pytest.mark.parametrize("names", [("add", "add"), ("add", "nothing"), ("add", "ghost"), ("ghost", "ghost")])
async def test_two_calls_of_one_id_in_one_batch(run: Any, names: tuple[str, str]) -> None:
    arguments = [{"a": 1}, {"a": 10} if names[1] == "add" else {}]
    calls = [ToolCall(name, args, "same") for name, args in zip(names, arguments, strict=True)]
    model = ScriptedModel([calls, "done"])
    response = await run(ChatClient(model, tools=TOOLS), "go")
    assert response.text == "done"
    results = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [m.name for m in results] == list(names) and len({m.call_id for m in results}) == 2
    expected = {"add": ["2", "11"], "nothing": ["", "nothing"]}
    for index, (name, message) in enumerate(zip(names, results, strict=True)):
        if name in expected:
            assert message.text == expected[name][index], "each result belongs to its own call"


async def test_ids_that_are_made_are_the_runtimes(run: Any) -> None:
    model = ScriptedModel([[ToolCall("nothing", {}, "same"), ToolCall("nothing", {}, "same")], "done"])
    made = iter(["turn-7", "call-8"])
    response = await run(ChatClient(model, tools=TOOLS, runtime=Runtime(ids=lambda: next(made))), "go")
    assert response.request.context.turn.id == "turn-7"
    assert [m.call_id for m in response.new_messages if isinstance(m, ToolMessage)] == ["same", "same_call-8"]


async def test_ids_used_again_in_later_rounds_and_turns(run: Any) -> None:
    def steps() -> list[Any]:
        return [[ToolCall("add", {"a": n}, "call_0"), ToolCall("add", {"a": 10 * n}, "call_1")] for n in (1, 2, 3)]

    model = ScriptedModel([*steps(), "done", *steps(), "again"])
    client = ChatClient(model, tools=TOOLS)
    first = await run(client, "go")
    history = [*model.requests[0].messages, *first.new_messages]
    second = await run(client, [*history, UserMessage(content="more")])
    texts = [m.text for m in second.new_messages if isinstance(m, ToolMessage)]
    assert texts == ["2", "11", "3", "21", "4", "31"] and second.text == "again"


async def test_a_server_side_call_is_left_alone(run: Any) -> None:
    hosted = ToolCall("web_search", {"q": "x"}, "srv", executed_by="provider")
    model = ScriptedModel([["Searching.", hosted, ToolCall("add", {"a": 1})], ["Done.", hosted]])
    response = await run(ChatClient(model, tools=TOOLS), "go")
    assert response.stop_reason == "final" and response.text == "Done." and response.tool_calls == ()
    assert [m.name for m in response.new_messages if isinstance(m, ToolMessage)] == ["add"]
