"""Output types: the schema for the model, natively or as an instruction, and the one validation of the answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from advisorchain import ChatClient, ConfigurationError, OutputError, ToolCall, tool
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.output import output_type_of
from advisorchain.testing import ScriptedModel


class City(BaseModel):
    """A city."""

    name: str
    people: int


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    id: str
    tags: list[str]


Answer = Literal["yes", "no"]

CASES: list[tuple[Any, str, Any]] = [
    (City, '{"name": "Rome", "people": 3}', City(name="Rome", people=3)),
    (list[int], "[1, 2]", [1, 2]),
    (list[City], '[{"name": "Rome", "people": 3}]', [City(name="Rome", people=3)]),
    (Answer, '"yes"', "yes"),
    (Point, '{"x": 1}', Point(1, 0)),
    (Row, '{"id": "a", "tags": ["b"]}', {"id": "a", "tags": ["b"]}),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (int | None, "null", None),
    (Annotated[int, Field(gt=1)], "2", 2),
    (bool, " true\n", True),
]
cases = pytest.mark.parametrize(("type_", "text", "value"), CASES, ids=lambda value: str(value)[:30])


@cases
async def test_as_an_instruction(run: Any, type_: Any, text: str, value: Any) -> None:
    model = ScriptedModel([text])
    response = await run(ChatClient(model, system="Be brief."), "?", output_type=type_)
    assert response.output == value and type(response.output) is type(value)
    assert response.text == text, "the text stays what the model said"
    request = model.requests[0]
    assert request.output is not None and request.output.schema
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.messages[0].text.startswith("Be brief.\n\n") and "JSON" in request.messages[0].text


@cases
async def test_natively(run: Any, type_: Any, text: str, value: Any) -> None:
    model = ScriptedModel([text], native_output=True)
    response = await run(ChatClient(model), "?", output_type=type_)
    assert response.output == value
    assert [message.role for message in model.requests[0].messages] == ["user"], "no instruction"


@pytest.mark.parametrize(
    "wrap",
    [
        "```json\n{}\n```".format,
        "```\n{}\n```".format,
        "\n  ```JSON \n{}```\n".format,
        lambda text: f"```json\n{text}\n\n```  ",
    ],
)
async def test_a_code_fence_is_taken_off(run: Any, wrap: Callable[[str], str]) -> None:
    model = ScriptedModel([wrap('{"name": "Rome", "people": 3}')])
    response = await run(ChatClient(model), "?", output_type=City)
    assert response.output == City(name="Rome", people=3)


def test_white_space_without_end_keeps_nobody_busy() -> None:
    """Models that are asked for JSON are known to write it until their tokens are spent."""
    started = time.process_time()
    with pytest.raises(OutputError):
        output_type_of(City).validate("```json\n" + "\n" * 1000 + "x")
    assert time.process_time() - started < 0.5


async def test_a_fence_inside_the_value_stays(run: Any) -> None:
    response = await run(ChatClient(ScriptedModel(['{"code": "```x```"}'])), "?", output_type=dict[str, str])
    assert response.output == {"code": "```x```"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Rome has three people.", "JSON"),
        ('{"name": "Rome"}', "people: Field required"),
        ('{"name": 5, "people": "x"}', "name.*people"),
        ("", "JSON"),
        ('{"name": "Rome", "people": 3} as you wished', "JSON"),
    ],
)
async def test_what_does_not_fit_is_an_error_with_the_text(run: Any, text: str, said: str) -> None:
    with pytest.raises(OutputError, match=said) as caught:
        await run(ChatClient(ScriptedModel([text])), "?", output_type=City)
    assert caught.value.text == text and "City" in str(caught.value)


async def test_the_instruction_is_given_in_every_round_and_once(run: Any) -> None:
    @tool
    async def count() -> int:
        """Count the people."""
        return 3

    model = ScriptedModel([["See. ", ToolCall("count", {})], '{"name": "Rome", "people": 3}'])
    response = await run(ChatClient(model, tools=[count]), "?", output_type=City)
    assert response.output.people == 3
    assert [request.messages[0].text.count("JSON schema") for request in model.requests] == [1, 1]
    assert [message.role for message in response.new_messages] == ["assistant", "tool", "assistant"]


@tool(return_direct=True)
async def find(name: str) -> City:
    """Find a city."""
    return City(name=name, people=3)


async def test_a_direct_result(run: Any) -> None:
    model = ScriptedModel([[ToolCall("find", {"name": "Rome"})]])
    response = await run(ChatClient(model, tools=[find]), "?", output_type=City)
    assert response.output == City(name="Rome", people=3) and response.stop_reason == "return_direct"
    assert response.direct_results[0].artifact == response.output


async def test_a_direct_result_that_does_not_fit(run: Any) -> None:
    model = ScriptedModel([[ToolCall("find", {"name": "Rome"})]])
    with pytest.raises(OutputError) as caught:
        await run(ChatClient(model, tools=[find]), "?", output_type=list[int])
    assert caught.value.text == '{"name":"Rome","people":3}'


async def test_open_calls_are_not_validated(run: Any) -> None:
    model = ScriptedModel([["One moment. ", ToolCall("find", {"name": "Rome"})]])
    response = await run(ChatClient(model, tools=[find]), "?", output_type=City, tool_loop=False)
    assert response.tool_calls and response.text == "One moment. "


async def test_a_limits_sentence_is_no_value(run: Any) -> None:
    loop = ToolCallingAdvisor(max_rounds=1, on_limit="stop")
    model = ScriptedModel([[ToolCall("find", {"name": "a"})], [ToolCall("find", {"name": "b"})]])
    with pytest.raises(OutputError, match="City"):
        await run(
            ChatClient(model, tools=[find], advisors=[loop], return_direct={"find": False}), "?", output_type=City
        )


@pytest.mark.parametrize("native", [True, False])
async def test_text_as_the_output_type_is_the_text(run: Any, native: bool) -> None:
    model = ScriptedModel(['"quoted" text'], native_output=native)
    response = await run(ChatClient(model), "?", output_type=str)
    assert response.output == '"quoted" text'
    assert [message.role for message in model.requests[0].messages] == ["user"], "text needs no instruction"


async def test_without_an_output_type_the_output_is_the_text(run: Any) -> None:
    assert (await run(ChatClient(ScriptedModel(["hi"])), "?")).output == "hi"


async def test_a_type_without_a_schema_is_refused() -> None:
    class Socket:
        pass

    with pytest.raises(ConfigurationError, match="Socket"):
        ChatClient(ScriptedModel([])).stream("?", output_type=Socket)
    with pytest.raises(ConfigurationError, match="output_type"):
        ChatClient(ScriptedModel([])).stream("?", output_type=5)  # type: ignore[call-overload]


async def test_an_unhashable_type(run: Any) -> None:
    type_: Any = Annotated[int, Field(json_schema_extra={"examples": [1]}), []]
    assert (await run(ChatClient(ScriptedModel(["4"])), "?", output_type=type_)).output == 4


async def test_one_type_for_many_calls_builds_one_schema(run: Any) -> None:
    model = ScriptedModel(["[1]", "[2]"])
    client = ChatClient(model)
    await run(client, "?", output_type=list[int])
    await run(client, "?", output_type=list[int])
    assert model.requests[0].output is model.requests[1].output


def test_schema_names_are_safe_for_providers() -> None:
    from advisorchain.output import output_type_of

    assert output_type_of(City).name == "City"
    for type_ in (list[City], dict[str, list[int]], City | None, Answer):
        name = output_type_of(type_).name
        assert name and len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum()
    assert output_type_of(City).is_object and not output_type_of(list[City]).is_object
