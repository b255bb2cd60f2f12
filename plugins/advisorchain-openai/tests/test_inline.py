"""Schemas without references: the same meaning, and a bounded size whatever the schema says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from advisorchain import ChatClient, Tool, tool
from advisorchain_openai import OpenAIModel
from advisorchain_openai.inline import MAX_NODES, inlined

if TYPE_CHECKING:
    from aimock import Aimock


class Place(BaseModel):
    """A place."""

    city: str
    country: str | None = None


class Trip(BaseModel):
    start: Place = Field(description="Where it starts.")
    stops: list[Place]
    kind: Literal["work", "holiday"] = "work"
    by_day: dict[str, Place] = {}


class Node(BaseModel):
    name: str
    children: list[Node] = []


def references(schema: Any) -> list[str]:
    found: list[str] = []
    if isinstance(schema, dict):
        found = [key for key in schema if key in ("$ref", "$defs")]
        found += [key for value in schema.values() for key in references(value)]
    elif isinstance(schema, list):
        found = [key for value in schema for key in references(value)]
    return found


def size(schema: Any) -> int:
    if isinstance(schema, dict):
        return 1 + sum(map(size, schema.values()))
    return sum(map(size, schema)) if isinstance(schema, list) else 0


def test_a_definition_takes_the_place_of_its_references() -> None:
    schema = Trip.model_json_schema()
    result = inlined(schema)
    assert result.whole and not references(result.schema)
    start = result.schema["properties"]["start"]
    assert start["description"] == "Where it starts."  # what stands beside a reference wins
    assert list(start["properties"]) == ["city", "country"]
    assert result.schema["properties"]["stops"]["items"]["description"] == "A place."
    assert "$defs" in schema, "the schema itself is not changed"


@pytest.mark.parametrize(
    "value",
    [
        {"start": {"city": "Bern"}, "stops": []},
        {"start": {"city": "Bern"}, "stops": [{"city": "Basel", "country": "CH"}], "by_day": {"mo": {"city": "Chur"}}},
        {"start": {"city": 7}, "stops": []},
        {"start": {"city": "Bern"}, "stops": [{"country": "CH"}]},
        {"start": {"city": "Bern"}, "stops": [], "by_day": {"mo": {}}},
        {"start": {"city": "Bern"}, "stops": [], "kind": "fun"},
        {},
    ],
)
def test_it_means_the_same(value: Any) -> None:
    schema = Trip.model_json_schema()
    validator = jsonschema.Draft202012Validator
    assert validator(inlined(schema).schema).is_valid(value) == validator(schema).is_valid(value)


@pytest.mark.parametrize("type_", [Node, list[Node], Node | Trip])
def test_a_recursive_type_is_cut_where_it_meets_itself(type_: Any) -> None:
    result = inlined(TypeAdapter(type_).json_schema())
    assert not result.whole and not references(result.schema)
    tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    value = [tree] if type_ == list[Node] else tree
    assert jsonschema.Draft202012Validator(result.schema).is_valid(value), "it allows what the type allows"


def test_the_cut_says_what_it_is() -> None:
    children = inlined(Node.model_json_schema()).schema["properties"]["children"]
    assert children["items"] == {"type": "object", "description": "Another Node, built like the one around it."}


def test_references_of_every_kind() -> None:
    schema = {
        "type": "object",
        "definitions": {"a/b": {"type": "integer"}, "alias": {"$ref": "#/definitions/a~1b"}},
        "properties": {
            "old": {"$ref": "#/definitions/a~1b"},
            "twice": {"$ref": "#/definitions/alias", "minimum": 3},
            "other": {"$ref": "#/properties/old"},
            "first": {"$ref": "#/anyOf/0"},
            "self": {"$ref": "#"},
            "gone": {"$ref": "#/$defs/Nothing"},
            "far": {"$ref": "https://example.com/schema.json"},
        },
        "anyOf": [{"type": "object"}],
    }
    result = inlined(schema)
    assert not result.whole and not references(result.schema) and "definitions" not in result.schema
    properties = result.schema["properties"]
    assert properties["old"] == properties["other"] == {"type": "integer"}
    assert properties["twice"] == {"type": "integer", "minimum": 3}
    assert properties["first"] == {"type": "object"}
    assert properties["self"]["type"] == "object" and "properties" not in properties["self"]
    assert "type" not in properties["gone"] and "type" not in properties["far"]


def test_names_and_data_are_no_references() -> None:
    """A field that is named like a keyword, and a default that looks like a reference."""
    field = {"type": "object", "default": {"$ref": "#/$defs/Place"}}
    schema = {"type": "object", "properties": {"definitions": {"type": "integer"}, "$ref": field}}
    assert inlined(schema) == (schema, True)


def test_a_schema_that_doubles_stays_small() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 40):
        inner = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    result = inlined({"type": "object", "properties": {"x": {"$ref": "#/$defs/d39"}}, "$defs": definitions})
    assert not result.whole and not references(result.schema)
    assert size(result.schema) < 5 * MAX_NODES


def test_a_long_chain_of_definitions_does_not_overflow_the_stack() -> None:
    definitions: dict[str, Any] = {
        f"d{number}": {"type": "object", "properties": {"next": {"$ref": f"#/$defs/d{number + 1}"}}}
        for number in range(5000)
    }
    chain = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(5000)}
    properties = {"x": {"$ref": "#/$defs/d0"}, "y": {"$ref": "#/$defs/a0"}}
    result = inlined({"type": "object", "properties": properties, "$defs": {**definitions, **chain}})
    assert not result.whole and not references(result.schema)


@tool
def plan(trip: Trip) -> str:
    """Plan a trip."""
    return f"from {trip.start.city}"


GROW = Tool.from_schema("grow", lambda arguments: "grown", description="Grow.", input_schema=Node.model_json_schema())


async def test_what_the_server_gets(aimock: Aimock, run: Any) -> None:
    arguments = {"trip": {"start": {"city": "Bern"}, "stops": []}}
    asks = {
        "match": {"userMessage": "plan", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "plan", "arguments": arguments, "id": "c1"}]},
    }
    answer = json.dumps({"name": "root", "children": [{"name": "leaf", "children": []}]})
    aimock.load([asks, {"match": {"hasToolResult": True}, "response": {"content": answer}}])
    model = OpenAIModel("gemini-x", base_url=aimock.openai_url, api_key="k", provider="gemini", inline_schemas=True)
    async with model:
        client = ChatClient(model, tools=[plan, GROW])
        response = await run(client, "plan it", output_type=Node)
    assert response.new_messages[1].text == "from Bern"
    assert response.output.children[0].name == "leaf"
    for body in aimock.bodies():
        assert not references(body["tools"]) and not references(body["response_format"])
        sent = [entry["function"]["name"] for entry in body["tools"]]
        assert sent == ["plan", "grow"]
        # A cut schema is none that a server could hold the model to.
        assert body["response_format"]["json_schema"]["strict"] is False


async def test_references_are_sent_unless_asked(aimock: Aimock) -> None:
    aimock.load([{"match": {"userMessage": "plan"}, "response": {"content": "No."}}])
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, api_key="k") as model:
        await ChatClient(model, tools=[plan]).call("plan it")
    assert references(aimock.bodies()[0]["tools"])


async def test_a_strict_output_type_stays_strict(aimock: Aimock) -> None:
    class Route(BaseModel):
        start: Place = Field(description="Where it starts.")
        end: Place

    answer = '{"start": {"city": "Bern", "country": null}, "end": {"city": "Chur", "country": null}}'
    aimock.load([{"match": {"userMessage": "route"}, "response": {"content": answer}}])
    async with OpenAIModel("gemini-x", base_url=aimock.openai_url, api_key="k", inline_schemas=True) as model:
        response = await ChatClient(model).call("route?", output_type=Route)
    assert response.output.end.city == "Chur"
    (body,) = aimock.bodies()
    sent = body["response_format"]["json_schema"]
    assert sent["strict"] is True and not references(sent["schema"])
    assert sent["schema"]["properties"]["end"]["additionalProperties"] is False
