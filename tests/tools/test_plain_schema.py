"""A schema that passes the quick look is one that its dialect passes, too."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError

from advisorchain import ConfigurationError
from advisorchain.tools.plain_schema import is_plain_schema
from advisorchain.tools.schema_arguments import check_schema

PLAIN: dict[str, Any] = {
    "type": "object",
    "title": "Order",
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 9, "description": "Which."},
        "count": {"type": "integer", "minimum": 0, "maximum": 9.5, "default": None},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 0, "maxItems": 3, "uniqueItems": True},
        "more": {"type": "object", "additionalProperties": {"type": "number"}},
        "anything": {},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def is_right(schema: Any) -> bool:
    try:
        Draft202012Validator.check_schema(schema)
        Draft7Validator.check_schema(schema)
    except SchemaError:
        return False
    return True


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[place for key, each in inner for place in places(each, (*path, key))]]


def changed(schema: Any, path: tuple[Any, ...], value: Any) -> Any:
    schema = json.loads(json.dumps(schema))
    inner = schema
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return schema


def test_a_plain_schema_is_seen_as_one() -> None:
    assert is_plain_schema(PLAIN)
    assert is_right(PLAIN)
    check_schema("t", PLAIN)


def test_whatever_is_put_anywhere_nothing_wrong_passes() -> None:
    values = [
        None,
        True,
        -1,
        1.5,
        "x",
        "string",
        [],
        ["a", "a"],
        ["a"],
        [1],
        {},
        {"type": "x"},
        {"a": 1},
        {"type": "null"},
    ]
    plain = wrong = 0
    for path in places(PLAIN)[1:]:
        for value in values:
            schema = changed(PLAIN, path, value)
            if is_plain_schema(schema):
                plain += 1
                assert is_right(schema), schema
            elif not is_right(schema):
                wrong += 1
                with pytest.raises(ConfigurationError, match="is no JSON schema"):
                    check_schema("t", schema)
    assert plain > 50
    assert wrong > 50


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/$defs/a"}, {"anyOf": [{}]}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}, {"x-own": 1}],
)
def test_what_it_does_not_know_it_leaves_to_the_dialect(schema: dict[str, Any]) -> None:
    assert not is_plain_schema(schema)
    check_schema("t", {**PLAIN, "properties": {"a": schema} if "$schema" not in schema else {}})


def test_keys_that_are_no_texts_and_other_mappings_are_left_to_it_too() -> None:
    assert not is_plain_schema({"properties": {1: {}}})
    assert not is_plain_schema({1: {}})
    assert not is_plain_schema([])


def test_random_orders_of_keywords_do_not_matter() -> None:
    keys = list(PLAIN)
    for seed in range(20):
        random.Random(seed).shuffle(keys)
        assert is_plain_schema({key: PLAIN[key] for key in keys})
