"""What is checked of the arguments for an untrusted server's tool before they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ToolArgumentsError
from advisorchain.mcp.remote_tool import OuterArguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "(a+)+$"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "really": {"type": "boolean"},
        "of": {"type": ["string", "null"]},
        "anything": True,
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "a"},
        {"name": "a" * 40 + "!"},  # what a pattern would take for ever to refuse
        {"name": "a", "count": 2, "share": 1.5, "really": True, "of": None, "anything": [1]},
        {"name": "a", "count": 2.0, "share": 1},
        {"name": "a", "count": None, "really": None},  # models write null for what they leave out
    ],
)
def test_what_passes_goes_on_as_it_is(arguments: dict[str, Any]) -> None:
    assert OuterArguments(SCHEMA).validate("t", arguments) == arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "name: is required"),
        ({"name": None}, "name: must be of type string"),
        ({"name": 1}, "name: must be of type string"),
        ({"name": "a", "count": 1.5}, "count: must be of type integer"),
        ({"name": "a", "count": True}, "count: must be of type integer"),
        ({"name": "a", "share": "1"}, "share: must be of type number"),
        ({"name": "a", "really": 1}, "really: must be of type boolean"),
        ({"name": "a", "more": 1}, "more: there is no such argument"),
    ],
)
def test_what_does_not_fit_is_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolArgumentsError, match=problem):
        OuterArguments(SCHEMA).validate("t", arguments)


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 3, "required": "name"}, {"properties": {"a": 1}, "required": [1]}]
)
def test_a_schema_that_is_none_refuses_nothing(schema: dict[str, Any]) -> None:
    assert OuterArguments(schema).validate("t", {"a": 1}) == {"a": 1}
