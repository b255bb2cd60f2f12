"""Random arguments and random results: one result for every call, whatever they are."""

from __future__ import annotations

import datetime
import decimal
import json
import logging
import uuid
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatResponse,
    Tool,
    ToolCall,
    ToolMessage,
    dump_messages,
    load_messages,
    tool,
)
from advisorchain.testing import ScriptedModel

RETURNED: list[Any] = []


class Inner(BaseModel):
    """A nested model."""

    x: int = 0
    more: list[dict[str, Any]] = []


@tool
async def typed(a: int, inner: Inner | None = None, tags: tuple[str, ...] = (), schema: Any = None) -> str:
    """Typed parameters."""
    return f"{type(a).__name__} {type(inner).__name__} {len(tags)}"


@tool
async def give() -> Any:
    """Give what the test wants."""
    return RETURNED[-1]


@tool(return_direct=True)
async def give_direct() -> Any:
    """Give it directly."""
    return RETURNED[-1]


async def echo(arguments: dict[str, Any]) -> Any:
    """Give the arguments back."""
    return arguments


described = Tool.from_schema(
    "described",
    echo,
    description="By a schema.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "inner": {"type": "object"}},
        "patternProperties": {"^x": {"type": "string"}},
    },
)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=8),
    st.sampled_from(["a", "inner", "x", "1", ""]),
)
JSON: Any = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
)
ARGUMENTS = st.one_of(
    st.none(),
    st.text(max_size=20),
    JSON.map(json.dumps),
    JSON.map(lambda value: json.dumps(value, ensure_ascii=False)),
    st.dictionaries(st.sampled_from(["a", "inner", "tags", "schema", "x1", "z"]), JSON, max_size=4),
    st.dictionaries(st.sampled_from(["a", "inner", "tags", "schema"]), JSON, max_size=4).map(json.dumps),
)
VALUES: Any = st.recursive(
    st.one_of(
        SCALARS,
        st.binary(max_size=6),
        st.datetimes(),
        st.dates(),
        st.timedeltas(),
        st.decimals(),
        st.complex_numbers(),
        st.fractions(),
        st.uuids(),
        st.sampled_from(
            [object, Inner(x=1), Inner, len, ..., NotImplemented, decimal.Decimal, uuid.UUID, datetime.UTC]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(SCALARS.filter(lambda key: key == key), inner, max_size=3),
    ),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Failures are expected: keep them out of the log."""
    caplog.set_level(logging.CRITICAL, "advisorchain")


async def turn(*calls: ToolCall) -> ChatResponse[Any]:
    """One turn with the calls; every call has its result, and the history is lossless through JSON."""
    model = ScriptedModel([ChatResponse(AssistantMessage(tool_calls=calls)), "done"])
    response = await ChatClient(model, tools=[typed, give, give_direct, described]).call("go")
    results = [message for message in response.new_messages if isinstance(message, ToolMessage)]
    assert [message.name for message in results] == [call.name for call in calls]
    history = [message for message in response.new_messages if not getattr(message, "tool_calls", ())]
    assert load_messages(dump_messages(history)) == tuple(history)
    return response


@settings(max_examples=300, deadline=None)
@given(
    arguments=st.lists(st.tuples(st.sampled_from(["typed", "described", "ghost"]), ARGUMENTS), min_size=1, max_size=3)
)
def test_any_arguments(arguments: list[tuple[str, Any]]) -> None:
    response = anyio.run(lambda: turn(*[ToolCall(name, given) for name, given in arguments]))
    assert response.text == "done"


@settings(max_examples=300, deadline=None)
@given(value=VALUES, direct=st.booleans())
def test_any_result(value: Any, direct: bool) -> None:
    RETURNED[:] = [value]
    response = anyio.run(lambda: turn(ToolCall("give_direct" if direct else "give")))
    (result,) = [message for message in response.new_messages if isinstance(message, ToolMessage)]
    if direct and not result.is_error:
        assert response.stop_reason == "return_direct" and response.text == result.text
        assert response.direct_results[0].artifact is value
    else:
        assert response.text == "done"
    if isinstance(value, str) and value.isprintable():
        assert result.text == value
