"""Output types as ``response_format``: strict where that loses nothing, wrapped where they are no objects."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from advisorchain.output import output_type_of
from advisorchain_openai.schema import read_wrapped, response_format, strict_schema


class Place(BaseModel):
    """A place."""

    city: str
    country: str | None = None


class Trip(BaseModel):
    id: uuid.UUID
    start: Place = Field(description="Where it starts.")
    stops: list[Place]
    kind: Literal["work", "holiday"]
    days: Annotated[int, Field(ge=1, le=60)]


class Node(BaseModel):
    name: str
    children: list[Node]


class WithDefault(BaseModel):
    city: str = "Paris"


class WithMap(BaseModel):
    prices: dict[str, int]


class WithLength(BaseModel):
    code: Annotated[str, Field(min_length=3)]


class WithNestedMap(BaseModel):
    inner: list[WithMap]


def test_strict_fields_are_all_required_and_no_others_allowed() -> None:
    form = response_format(output_type_of(Trip))
    assert not form.wrapped
    assert form.value["type"] == "json_schema"
    sent = form.value["json_schema"]
    assert sent["name"] == "Trip" and sent["strict"] is True
    schema = sent["schema"]
    assert schema["required"] == ["id", "start", "stops", "kind", "days"]
    assert schema["additionalProperties"] is False
    # What stands beside a reference is merged with what it refers to.
    assert schema["properties"]["start"]["description"] == "Where it starts."
    assert schema["properties"]["start"]["properties"].keys() == {"city", "country"}
    # A field that may be absent takes null instead.
    assert schema["$defs"]["Place"]["required"] == ["city", "country"]
    assert "default" not in str(schema) and "title" not in str(schema)


@pytest.mark.parametrize("type_", [WithDefault, WithMap, WithLength, WithNestedMap])
def test_not_strict_when_that_would_change_the_type(type_: Any) -> None:
    output = output_type_of(type_)
    sent = response_format(output).value["json_schema"]
    assert sent["strict"] is False
    assert sent["schema"] == output.schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "required": ["a"]},
        {"type": "object", "properties": {"a": True}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/X", "description": "x"}}, "required": ["a"]},
    ],
)
def test_other_schemas_that_are_not_strict(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_a_description_on_a_recursive_reference_does_not_recurse_for_ever() -> None:
    schema = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node", "description": "the root"}},
        "required": ["node"],
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/Node", "description": "the next one"}},
                "required": ["next"],
            }
        },
    }
    assert strict_schema(schema) is None


@pytest.mark.parametrize("type_", [int, list[int], list[Place], Literal["a", "b"], Place | int, Node])
def test_what_is_no_object_is_wrapped_in_one(type_: Any) -> None:
    output = output_type_of(type_)
    form = response_format(output)
    assert form.wrapped
    schema = form.value["json_schema"]["schema"]
    assert schema["type"] == "object" and list(schema["properties"]) == ["value"] and schema["required"] == ["value"]
    assert "$defs" not in schema["properties"]["value"]
    assert ("$defs" in schema) == ("$defs" in output.schema)
    assert form.value["json_schema"]["strict"] is True


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"value": [1, 2]}', "[1, 2]"),
        ('{"value": "é"}', '"é"'),
        ('{"value": null}', "null"),
        ('{"value": 1, "more": 2}', '{"value": 1, "more": 2}'),
        ("[1, 2]", "[1, 2]"),
        ("no JSON", "no JSON"),
        ("", ""),
    ],
)
def test_unwrapped(text: str, value: str) -> None:
    assert read_wrapped(text) == (value, ())
