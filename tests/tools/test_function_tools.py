"""Tools made from functions: schema, types, defaults, docstrings, and parameters that cannot be described."""

from __future__ import annotations

import enum
import json
import math
import socket
import uuid
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from advisorchain import ChatClient, ConfigurationError, Tool, ToolContext, tool
from advisorchain.testing import ScriptedModel


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """One line of an order."""

    sku: str
    amount: int = Field(ge=1, description="how many")


class Address(BaseModel):
    """Where to."""

    city: str
    items: list[Item] = []


def test_bare_and_called_decorator() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool(name="plus", title="Plus", description="Adds.", tags=["math"], meta={"unit": "1"}, read_only=True)
    def other(a: int, b: int) -> int:
        return a + b

    assert isinstance(add, Tool) and add.name == "add" and add.description == "Add two numbers."
    assert add(1, 2) == 3, "still callable as the function"
    assert add.type == "function" and add.title == "add" and not add.return_direct
    assert (other.name, other.title, other.description, other.tags) == ("plus", "Plus", "Adds.", frozenset({"math"}))
    assert dict(other.meta) == {"unit": "1"} and other.read_only is True and other.idempotent is None
    assert add.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


async def test_types_of_parameters(result_of: Any) -> None:
    seen: dict[str, Any] = {}

    @tool
    def order(
        color: Color,
        when: date,
        at: datetime,
        key: uuid.UUID,
        price: Decimal,
        address: Address,
        items: list[Item],
        size: Literal["s", "m"],
        point: tuple[int, int],
        flags: set[str],
        extra: dict[str, float] | None = None,
    ) -> str:
        """Order things."""
        seen.update(locals())
        return "ok"

    identifier = uuid.uuid4()
    raw = (
        f'{{"color": "red", "when": "2026-01-02", "at": "2026-01-02T03:04:05Z", "key": "{identifier}", '
        '"price": "1.50", '
        '"address": {"city": "Bern", "items": [{"sku": "a", "amount": 1}]}, "items": [{"sku": "b", "amount": 2}], '
        '"size": "s", "point": [1, 2], "flags": ["x"]}'
    )
    assert not (await result_of(order, raw)).is_error
    assert seen["color"] is Color.RED and seen["when"] == date(2026, 1, 2) and seen["at"].year == 2026
    assert seen["key"] == identifier and seen["price"] == Decimal("1.50") and seen["extra"] is None
    assert seen["address"].items == [Item(sku="a", amount=1)] and seen["items"] == [Item(sku="b", amount=2)]
    assert seen["point"] == (1, 2) and seen["flags"] == {"x"}
    assert order.input_schema["required"] == [
        "color", "when", "at", "key", "price", "address", "items", "size", "point", "flags",
    ]  # fmt: skip
    assert "how many" in str(order.input_schema)


async def test_the_same_arguments_as_a_dict(result_of: Any) -> None:
    @tool
    def order(color: Color, when: date, key: uuid.UUID, items: list[Item]) -> str:
        """Order things."""
        return f"{color.name} {when.year} {key.version} {items[0].amount}"

    arguments = {
        "color": "blue",
        "when": "2026-01-02",
        "key": str(uuid.uuid4()),
        "items": [{"sku": "a", "amount": 3}],
    }
    assert (await result_of(order, arguments)).text == "BLUE 2026 4 3"


@pytest.mark.parametrize(
    "hint",
    [
        int | None,
        Optional[int],  # noqa: UP045
        Annotated[int | None, Field(description="a number")],
        Annotated[Optional[int], Field(description="a number"), Field(ge=0)],  # noqa: UP045
    ],
)
async def test_or_none_is_optional(result_of: Any, hint: Any) -> None:
    def show(number: Any) -> str:
        """Show it."""
        return repr(number)

    show.__annotations__["number"] = hint
    made = tool(show)
    assert "required" not in made.input_schema or "number" not in made.input_schema["required"]
    assert (await result_of(made, {})).text == "None"
    assert (await result_of(made, {"number": None})).text == "None"
    assert (await result_of(made, '{"number": 4}')).text == "4"


async def test_defaults_and_field(result_of: Any) -> None:
    @tool
    def search(
        query: Annotated[str, Field(description="what", min_length=2)],
        limit: int = Field(5, ge=1, le=10, description="how many"),
        sort: Color = Color.RED,
        tags: list[str] = [],  # noqa: B006
    ) -> str:
        """Search."""
        return f"{query} {limit} {sort.name} {tags}"

    properties = search.input_schema["properties"]
    assert properties["query"] == {"description": "what", "minLength": 2, "type": "string"}
    assert properties["limit"]["maximum"] == 10 and properties["limit"]["default"] == 5
    assert properties["sort"]["default"] == "red"
    assert search.input_schema["required"] == ["query"]
    assert (await result_of(search, {"query": "ab"})).text == "ab 5 RED []"
    error = await result_of(search, {"query": "a", "limit": 11})
    assert error.is_error and "query" in error.text and "limit" in error.text


class Range(BaseModel):
    """A range."""

    least: float = -math.inf
    most: Annotated[float, Field(le=math.inf)] = math.inf


async def test_defaults_and_bounds_that_json_has_no_number_for(result_of: Any) -> None:
    @tool
    def search(within: Range, most: float = math.inf, least: float = math.nan) -> str:
        """Search."""
        return f"{within.least} {within.most} {most} {least}"

    assert json.dumps(search.input_schema, allow_nan=False), "as clients of providers write it"
    assert search.input_schema["required"] == ["within"]
    assert (await result_of(search, {"within": {}})).text == "-inf inf inf nan"


def test_values_in_a_schema_keep_their_titles() -> None:
    @tool
    def save(
        title: str,
        book: dict[str, str] = {"title": "Untitled"},  # noqa: B006
        other: Annotated[Any, Field(examples=[{"title": "Dune"}])] = None,
    ) -> str:
        """Save."""
        return title

    properties = save.input_schema["properties"]
    assert properties["title"] == {"type": "string"}
    assert properties["book"]["default"] == {"title": "Untitled"}
    assert properties["other"]["examples"] == [{"title": "Dune"}]


GOOGLE = """Book a trip.

    It takes a while.

    Args:
        city: where to go,
            in any language.
        days: how long.

    Returns:
        A number.
    """
NUMPY = """Book a trip.

    It takes a while.

    Parameters
    ----------
    city : str
        where to go,
        in any language.
    days : int
        how long.

    Returns
    -------
    str
        A number.
    """
SPHINX = """Book a trip.

    It takes a while.

    :param city: where to go,
        in any language.
    :param days: how long.
    :return: A number.
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstrings(doc: str) -> None:
    def trip(city: str, days: int) -> str:
        return city

    trip.__doc__ = doc
    made = tool(trip)
    properties = made.input_schema["properties"]
    assert properties["city"]["description"].split() == ["where", "to", "go,", "in", "any", "language."]
    assert properties["days"]["description"] == "how long."
    assert "Book a trip." in made.description and "It takes a while." in made.description
    assert "how long" not in made.description and "A number" not in made.description


def test_other_sections_stay_in_the_description() -> None:
    @tool
    def book(day: str) -> str:
        """Book a seat.

        Args:
            day: which day

        Note:
            Only on Mondays.

        Raises:
            ValueError: a Sunday
        """
        return day

    assert "Book a seat." in book.description and "Only on Mondays." in book.description
    assert "which day" not in book.description and "a Sunday" not in book.description


def test_a_field_description_wins_over_the_docstring() -> None:
    @tool
    def f(x: Annotated[int, Field(description="from the field")], y: int) -> int:
        """Do.

        Args:
            x: from the docstring
            y: from the docstring
        """
        return x

    assert f.input_schema["properties"]["x"]["description"] == "from the field"
    assert f.input_schema["properties"]["y"]["description"] == "from the docstring"


async def test_parameters_named_like_attributes_of_a_model(result_of: Any) -> None:
    @tool
    def odd(
        copy: int, json: int, schema: int, model_x: int, _x: int, dict: int, model_config: int, validate: int = 0
    ) -> str:
        """Odd."""
        return f"{copy}{json}{schema}{model_x}{_x}{dict}{model_config}{validate}"

    names = ["copy", "json", "schema", "model_x", "_x", "dict", "model_config", "validate"]
    assert list(odd.input_schema["properties"]) == names
    assert (await result_of(odd, {name: index for index, name in enumerate(names)})).text == "01234567"
    error = await result_of(odd, {"copy": "no"})
    assert error.is_error and "copy" in error.text and "_x" in error.text and "parameter_" not in error.text


async def test_renamed_parameters_do_not_collide(result_of: Any) -> None:
    @tool
    def odd(copy: int, parameter_0: int) -> str:
        """Odd."""
        return f"{copy} {parameter_0}"

    assert (await result_of(odd, {"copy": 1, "parameter_0": 2})).text == "1 2"


@pytest.mark.parametrize("source", ["def f(*args: int): 0", "def f(**kwargs: int): 0", "def f(x: int, /): 0"])
def test_parameters_that_cannot_be_named(source: str) -> None:
    names: dict[str, Any] = {}
    exec(source, names)
    with pytest.raises(ConfigurationError, match=r"f: parameter .*(args|kwargs|x)"):
        tool(names["f"])


class Session:
    """Of a database: no JSON schema."""


def test_a_parameter_without_a_schema() -> None:
    def query(sql: str, connection: socket.socket) -> str:
        """Query."""
        return sql

    with pytest.raises(ConfigurationError) as caught:
        tool(query)
    text = str(caught.value)
    assert "query" in text and "'connection'" in text and "socket" in text and "'sql'" not in text

    def other(session: Session) -> str:
        """Query."""
        return ""

    with pytest.raises(ConfigurationError, match=r"other: parameter 'session' of type Session"):
        ChatClient(ScriptedModel([]), tools=[other])


def test_two_contexts_are_refused() -> None:
    def f(one: ToolContext, two: ToolContext | None = None) -> str:
        """F."""
        return ""

    with pytest.raises(ConfigurationError, match=r"f: 'one' and 'two' are both a ToolContext"):
        tool(f)


def test_types_that_are_not_defined() -> None:
    def f(x: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821
        """F."""
        return ""

    with pytest.raises(ConfigurationError, match=r"(?s)f.*'Missing'.*import"):
        tool(f)


async def test_types_defined_in_a_function(result_of: Any) -> None:
    class Local(BaseModel):
        x: int

    class Kind(enum.StrEnum):
        A = "a"

    @dataclass
    class Data:
        y: int

    class Typed(TypedDict):
        z: int

    @tool
    async def local(model: Local, kind: Kind, data: Data, typed: Typed) -> Local:
        """Local."""
        return Local(x=model.x + data.y + typed["z"])

    arguments = {"model": {"x": 1}, "kind": "a", "data": {"y": 2}, "typed": {"z": 3}}
    assert (await result_of(local, arguments)).text == '{"x":6}'
    assert local.output_schema is not None and local.output_schema["properties"]["x"] == {"type": "integer"}
