"""Which output types the provider can enforce, and in what form."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from advisorchain.output import output_type_of
from advisorchain_anthropic.schema import output_format, read_wrapped


class Inner(BaseModel):
    day: date
    kind: Literal["a", "b"] = "a"


class Outer(BaseModel):
    number: Annotated[int, Field(ge=1, le=9)]
    inner: Inner
    more: list[Inner] | None = None


class Node(BaseModel):
    name: str
    children: list[Node]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


def schema_of(type_: Any) -> dict[str, Any]:
    form = output_format(output_type_of(type_))
    assert form is not None and form.value["type"] == "json_schema"
    return form.value["schema"]


def test_an_object() -> None:
    schema = schema_of(Outer)
    assert schema["additionalProperties"] is False and schema["required"] == ["number", "inner"]
    assert schema["$defs"]["Inner"]["properties"]["day"] == {"type": "string", "format": "date", "title": "Day"}
    number = schema["properties"]["number"]
    assert number["type"] == "integer" and "minimum: 1" in number["description"] and "minimum" not in number


@pytest.mark.parametrize(
    "type_", [int, str | None, list[int], Literal["a", "b"], Annotated[Cat | Dog, Field(discriminator="kind")]]
)
def test_what_is_no_object_travels_in_one(type_: Any) -> None:
    form = output_format(output_type_of(type_))
    assert form is not None and form.wrapped
    assert form.value["schema"]["required"] == ["value"]


def test_definitions_stay_at_the_root() -> None:
    schema = schema_of(list[Inner])
    assert "Inner" in schema["$defs"] and schema["properties"]["value"]["items"] == {"$ref": "#/$defs/Inner"}


@pytest.mark.parametrize(
    "type_", [dict[str, int], dict[str, Any], Any, list[Any], tuple[int, str], Node, list[dict[str, Inner]], list[Node]]
)
def test_what_cannot_be_enforced_without_changing_its_meaning(type_: Any) -> None:
    assert output_format(output_type_of(type_)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"value": [1, "ü"]}', '[1, "ü"]'),
        ('{"value": 1, "more": 2}', '{"value": 1, "more": 2}'),
        ('{"value": [1', '{"value": [1'),
        ("plain", "plain"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_the_value_inside(text: str, value: str) -> None:
    assert read_wrapped(text) == value
