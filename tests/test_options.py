"""Options: checked with a hint, merged field by field (call over client over model), handed over as they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from advisorchain import ChatClient, ChatNext, ChatOptions, ChatRequest, ChatResponse, ConfigurationError, chat_advisor
from advisorchain.options import NO_OPTIONS
from advisorchain.testing import ScriptedModel

options = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["a", "b"]),
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "max_tokens": st.integers(1, 9),
        "stop": st.lists(st.sampled_from(["x", "y"])).map(tuple),
        "seed": st.integers(),
        "tool_choice": st.sampled_from(["auto", "none", "required", "my_tool"]),
        "parallel_tool_calls": st.booleans(),
        "extra": st.dictionaries(st.sampled_from(["p", "q", "r"]), st.integers(0, 3)),
    },
)


@given(options, options)
def test_over(upper: dict[str, Any], lower: dict[str, Any]) -> None:
    merged = ChatOptions(**upper).over(ChatOptions(**lower))
    expected: dict[str, Any] = {**lower, **upper, "extra": {**lower.get("extra", {}), **upper.get("extra", {})}}
    assert merged == ChatOptions(**expected)


@given(options, options, options)
def test_over_is_associative(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    one, two, three = ChatOptions(**a), ChatOptions(**b), ChatOptions(**c)
    assert one.over(two).over(three) == one.over(two.over(three))
    assert one.over(NO_OPTIONS) == one == NO_OPTIONS.over(one)


async def test_call_over_client(run: Any) -> None:
    model = ScriptedModel(["a", "b", "c"])
    client = ChatClient(model, options={"temperature": 0.5, "max_tokens": 10, "extra": {"a": 1, "b": 1}})
    await run(client, "?", options=ChatOptions(temperature=0, extra={"b": 2}))
    await run(client, "?", options={"max_tokens": 3})
    await run(client, "?")
    found = [(r.options.temperature, r.options.max_tokens, r.options.extra) for r in model.requests]
    assert found == [(0, 10, {"a": 1, "b": 2}), (0.5, 3, {"a": 1, "b": 1}), (0.5, 10, {"a": 1, "b": 1})]


async def test_an_advisor_changes_options_for_what_is_inside(run: Any) -> None:
    @chat_advisor(order=600)
    async def cool(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.replace(options=request.options.replace(temperature=0)))

    model = ScriptedModel(["a"])
    await run(ChatClient(model, options={"temperature": 1, "seed": 4}, advisors=[cool]), "?")
    assert (model.requests[0].options.temperature, model.requests[0].options.seed) == (0, 4)


def test_options_of_one_provider_are_handed_over_as_they_are() -> None:
    class Format(BaseModel):
        kind: str

    marker, schema = object(), Format(kind="x")
    mine = ChatOptions(extra={"marker": marker, "schema": schema}, stop=("a",))
    for changed in (
        mine.replace(temperature=1),
        mine.over(ChatOptions(temperature=1)),
        ChatOptions(temperature=1).over(mine),
    ):
        assert changed.temperature == 1 and changed.stop == ("a",)
        assert changed.extra["marker"] is marker and changed.extra["schema"] is schema
    assert mine.replace(extra={"other": 1}).extra == {"other": 1}


def test_options_are_frozen_and_checked() -> None:
    with pytest.raises(ValidationError):
        ChatOptions().temperature = 1
    with pytest.raises(ValidationError):
        ChatOptions().replace(temperature=5)
    with pytest.raises(ValidationError):
        NO_OPTIONS.replace(max_tokens=0)


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({"temprature": 1}, r"temprature.*'temperature'"),
        ({"response_format": {}}, r"response_format.*extra="),
        ({"temperature": 5}, r"temperature.*less than or equal to 2"),
        ({"max_tokens": "many"}, r"max_tokens.*integer"),
        (5, "options"),
        ("temperature=1", "options"),
        ([("temperature", 1)], "options"),
    ],
)
@pytest.mark.parametrize("place", ["client", "call"])
def test_wrong_options_are_explained(given_options: Any, said: str, place: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        if place == "client":
            ChatClient(ScriptedModel([]), options=given_options)
        else:
            ChatClient(ScriptedModel([])).stream("?", options=given_options)
