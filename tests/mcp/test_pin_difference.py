"""What differs between two definitions, in lines that a person reads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from advisorchain.mcp.listed_tool import ListedTool
from advisorchain.mcp.pin import Pin, fingerprint
from advisorchain.mcp.pin_difference import difference

ADD = ListedTool(
    server="s",
    name="add",
    title="Add",
    description="Adds two numbers.",
    input_schema={"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    output_schema={"type": "object"},
    annotations={"readOnlyHint": True},
    meta={"v": 1},
)


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def test_difference_names_every_field() -> None:
    new = replace(
        ADD,
        title=None,
        description="Adds two\u200b numbers.",
        input_schema={"type": "object", "properties": {"a": {"type": "string"}, "c": {}}, "required": ["a"]},
        annotations={"readOnlyHint": False},
    )
    expected = [
        "title: 'Add' -> null",
        "description: 'Adds two numbers.' -> 'Adds two\\u200b numbers.'",
        "inputSchema/properties/a/type: 'number' -> 'string'",
        'inputSchema/properties/b: removed, was {"type": "number"}',
        "inputSchema/properties/c: added {}",
        'inputSchema/required: added ["a"]',
        "annotations/readOnlyHint: true -> false",
    ]
    assert difference(ADD, new) == expected
    assert difference(Pin.of(ADD), Pin.of(new)) == expected
    assert difference(ADD, ADD) == []


def test_long_texts_show_where_they_part() -> None:
    (line,) = difference({"description": "x" * 5000 + "good"}, {"description": "x" * 5000 + "evil" + "y" * 500})
    assert line == f"description: ...'{'x' * 30}good' -> ...'{'x' * 30}evil{'y' * 86}'..."


def test_differences_of_lists_and_kinds() -> None:
    assert difference({"a": [1, 2, 3], "b": 1, "c": True}, {"a": [1, 5], "b": 1.0, "c": 1}) == [
        "a/1: 2 -> 5",
        "a/2: removed, was 3",
        "b: 1 -> 1.0",
        "c: true -> 1",
    ]


def test_differences_are_bounded() -> None:
    lines = difference({}, {f"k{number}\n": "v" for number in range(500)})
    assert len(lines) == 101
    assert lines[0] == "k0\\n: added 'v'"
    assert lines[-1] == "and more"
    assert difference(deep(200), {**deep(200), "x": 1}) == ["x: added 1"]


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_a_difference_is_seen_exactly_where_the_fingerprint_differs(old: Any, new: Any) -> None:
    first, second = replace(ADD, annotations={"x": old}), replace(ADD, annotations={"x": new})
    assert bool(difference(first, second)) == (fingerprint(first) != fingerprint(second))


@given(json_values)
def test_a_fingerprint_survives_json(value: Any) -> None:
    tool = replace(ADD, annotations={"x": value})
    assert fingerprint(replace(tool, annotations=json.loads(json.dumps(tool.annotations)))) == fingerprint(tool)
