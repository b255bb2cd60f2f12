"""`KeywordModel` against generated texts and schemas: it never raises, and what it fills in is valid."""

from __future__ import annotations

import datetime
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisorchain import AssistantMessage, ChatClient, Tool, ToolMessage
from advisorchain.models import KeywordModel
from advisorchain.models.keyword_arguments import Filler
from advisorchain.models.keyword_text import Clues

SAID = r"""
status of TR001 and TR002 weather in Paris Rome from to 5 3.14 -7 2026-02-30 2026-02-28 yes no not true a@b.co
https://x.y/z 12:30 tomorrow 北京 的 天气 审批 状态 和 ， 。 "quoted words" 'x' ( ) [ ] * + ? \ name=Bob count: 4
enabled red green unknown 😀 ＴＲ００１ 一 三个 １２
"""
WORDS = st.sampled_from([*SAID.split(), "\x1b[31m", "\u202e", "\ud800", "\x00"])
TEXTS = st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=60)
NAMES = st.sampled_from(
    ["status", "id", "request_id", "city", "to", "date", "count", "enabled", "q", "名称", "a b", "x-y"]
)

STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "format": st.sampled_from(["date", "date-time", "time", "email", "uri", "uuid", "other"]),
        "minLength": st.integers(0, 5), "maxLength": st.integers(0, 9), "description": TEXTS,
        "pattern": st.sampled_from(["^[A-Z]{2}\\d{3}$", "\\d", ""]),
    },
)  # fmt: skip
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={"minimum": st.integers(-9, 9), "maximum": st.integers(-9, 9), "exclusiveMinimum": st.integers(-9, 9)},
)
CHOICE = st.sampled_from(["red", "green", 1, None, "北京", "a_b"])
CHOICES = st.fixed_dictionaries({"enum": st.lists(CHOICE, min_size=1)})
FLAGS = st.just({"type": "boolean"})
SCALARS: st.SearchStrategy[Any] = STRINGS | NUMBERS | CHOICES | FLAGS | st.just({}) | st.just({"const": 7})


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    @st.composite
    def build(draw: Any) -> dict[str, Any]:
        properties = draw(st.dictionaries(NAMES, values, max_size=4))
        required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
        if draw(st.booleans()):
            schema["additionalProperties"] = False
        return schema

    return build()


def count_of(arguments: dict[str, Any]) -> dict[str, int]:
    return {"ok": len(arguments)}


VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        objects(inner)
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda a, b: {"anyOf": [a, b, {"type": "null"}]}, inner, inner)
    ),
    max_leaves=4,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    text=TEXTS,
    schemas=st.lists(objects(VALUES), min_size=1, max_size=3),
    choice=st.sampled_from(["auto", "required"]),
)
def test_it_never_raises_and_its_arguments_are_valid(text: str, schemas: list[dict[str, Any]], choice: str) -> None:
    names = ["get_status", "weatherInCity", "分析_budget"]
    tools = [
        Tool.from_schema(name, count_of, description=f"{name} 查询状态 of a city", input_schema=schema)
        for name, schema in zip(names, schemas, strict=False)
    ]
    client = ChatClient(KeywordModel(), tools=tools)

    async def ask() -> Any:
        return await client.call(text, options={"tool_choice": choice})

    response = anyio.run(ask)
    assert response.text
    calls = [call for m in response.new_messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    results = {m.call_id: m for m in response.new_messages if isinstance(m, ToolMessage)}
    assert sorted(results) == sorted(call.id for call in calls), "one result per call"
    by_name = {each.name: each for each in tools}
    for call in calls:
        if choice == "auto":
            by_name[call.name].validate(call.arguments)
            assert not results[call.id].is_error
        assert isinstance(call.arguments, dict)
        assert set(call.arguments) <= set(by_name[call.name].input_schema["properties"])


KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "enum", "anyOf", "allOf", "$ref", "items", "minimum", "pattern", "format", "a"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXTS, properties=ANYTHING, required=ANYTHING)
def test_a_schema_that_is_none_does_not_break_the_filler(text: str, properties: Any, required: Any) -> None:
    schema = {"type": "object", "properties": properties, "required": required}
    arguments, missing = Filler(schema, Clues(text, datetime.date.today), set()).fill(schema)
    assert not arguments.keys() & set(missing)
