"""Which tools a text asks for, and with which arguments: the rules by which `KeywordModel` calls tools."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from .keyword_arguments import Filler
from .keyword_schema import Schema, as_list, as_mapping
from .keyword_text import Clues, has_id, split_name, terms, terms_of_question

if TYPE_CHECKING:
    from ..tools import Tool

THRESHOLD = 0.7
"""The least score at which a tool is meant."""
MAX_CALLS = 8
"""How many calls one text may ask for."""
MAX_CLAUSES = 20
"""Into how many clauses a text is cut; what follows is one more."""

_CLAUSES = re.compile(
    r"(?:[;；。?？!！\n]|[,，、](?!\d)|\.\s|\b(?:and then|and also|and|then|also|plus)\b|"
    r"以及|还有|并且|然后|和|与|及|并)\s*",
    re.I,
)


class Profile:
    """What a tool is recognised by; made once per tool."""

    __slots__ = ("name", "weights", "choices", "chars")

    def __init__(self, tool: Tool) -> None:
        self.name = tool.name.lower()
        self.weights: dict[str, float] = {}
        self.choices: set[str] = set()
        schema = json.dumps(dict(tool.input_schema), ensure_ascii=False, default=str)
        self.chars = len(tool.name) + len(tool.description) + len(schema)
        self._add(tool.description, 1.0)
        for name, prop in as_mapping(tool.input_schema.get("properties")).items():
            self._add(name, 1.0)
            self._add_property(as_mapping(prop))
        self._add(" ".join(tool.tags), 2.0)
        self._add(tool.title, 2.0)
        self._add(tool.name, 3.0)

    def _add(self, text: str, weight: float) -> None:
        for term in terms(text):
            self.weights[term] = max(weight, self.weights.get(term, 0.0))

    def _add_property(self, prop: Schema) -> None:
        self._add(str(prop.get("description", "")), 0.5)
        for option in (prop, *map(as_mapping, as_list(prop.get("anyOf")))):
            self.choices.update(str(value).lower() for value in as_list(option.get("enum")) if value is not None)

    @property
    def terms(self) -> set[str]:
        """The tool's own terms."""
        return set(self.weights)


class PlannedCall(NamedTuple):
    """One call that the text asks for; ``missing`` are required arguments that it does not say."""

    tool: Tool
    arguments: dict[str, Any]
    missing: tuple[str, ...]

    @property
    def key(self) -> str:
        """Equal for equal calls."""
        return call_key(self.tool.name, self.arguments)


def call_key(name: str, arguments: Any) -> str:
    """What makes two calls the same."""
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"


class _Group(NamedTuple):
    tool: Tool
    start: int
    end: int
    why: tuple[str, ...]


class Planner:
    """Plans the calls for one text.

    Args:
        tools: the tools that may be called.
        text: what the user says.
        today: for "tomorrow".
        last: the name of the tool that was called last in the conversation: a bare "and TR002?" means it again.
    """

    def __init__(self, tools: Iterable[Tool], text: str, today: Callable[[], datetime.date], last: str | None) -> None:
        self._tools = list(tools)
        self._profiles = {tool.name: profile(tool) for tool in self._tools}
        self._text = text
        self._today = today
        self._last = last
        self._frequency: dict[str, int] = {}
        for each in self._profiles.values():
            for term in each.weights:
                self._frequency[term] = self._frequency.get(term, 0) + 1

    def calls(self, forced: str | None = None) -> list[PlannedCall]:
        """The calls that the text asks for.

        Args:
            forced: the tool that must be called, or ``""`` for any tool; None leaves it to the text.
        """
        if not self._tools:
            return []
        if forced:
            groups = [_Group(tool, 0, len(self._text), ()) for tool in self._tools if tool.name == forced]
        else:
            groups = self._groups()
            if not groups and forced is not None:
                groups = [_Group(self._ranked(self._text)[0][1], 0, len(self._text), ())]
        calls: dict[str, PlannedCall] = {}
        for group in groups:
            for call in self._filled(group):
                calls.setdefault(call.key, call)
        return list(calls.values())[:MAX_CALLS]

    # Which tools -----------------------------------------------------------------------------------------------------

    def _groups(self) -> list[_Group]:
        """Neighbouring clauses that mean one tool, as pieces of the text."""
        groups: list[_Group] = []
        start = 0
        for clause_start, clause_end in _clauses(self._text):
            score, tool, why = self._ranked(self._text[clause_start:clause_end])[0]
            if score < THRESHOLD or (groups and tool is groups[-1].tool):
                if groups:
                    groups[-1] = groups[-1]._replace(end=clause_end)
                continue
            groups.append(_Group(tool, start, clause_end, why))
            start = clause_end
        if groups:
            return [*groups[:-1], groups[-1]._replace(end=len(self._text))]
        score, tool, why = self._ranked(self._text)[0]
        if score >= THRESHOLD:
            return [_Group(tool, 0, len(self._text), why)]
        tool_by_id = self._tool_for_an_id()
        return [_Group(tool_by_id, 0, len(self._text), ())] if tool_by_id is not None else []

    def _ranked(self, text: str) -> list[tuple[float, Tool, tuple[str, ...]]]:
        """All tools with their score and the terms that made it, best first; equal scores keep the tools' order."""
        words, lower = terms_of_question(text), text.lower()
        id_said = has_id(text)
        ranked: list[tuple[float, Tool, tuple[str, ...]]] = []
        for tool in self._tools:
            own = self._profiles[tool.name]
            hits = sorted(words.keys() & own.weights.keys())
            score = sum(words[hit] * own.weights[hit] / math.sqrt(self._frequency[hit]) for hit in hits)
            score += 1.0 if score and id_said and _takes_an_id(tool) else 0.0
            score += sum(1.0 for choice in own.choices if _says(lower, choice))
            if _says(lower, own.name) and ("_" in own.name or len(own.name) > 3):
                score += 10.0
            ranked.append((score, tool, tuple(hits)))
        ranked.sort(key=lambda entry: -entry[0])
        return ranked

    def _tool_for_an_id(self) -> Tool | None:
        """The tool that an id alone can mean: the last one called, or else the only one that takes an id."""
        if not has_id(self._text):
            return None
        takers = [tool for tool in self._tools if _takes_an_id(tool)]
        last = [tool for tool in takers if tool.name == self._last]
        if last:
            return last[0]
        return takers[0] if len(takers) == 1 else None

    # With which arguments --------------------------------------------------------------------------------------------

    def _filled(self, group: _Group) -> list[PlannedCall]:
        """The calls of one group: several when its text lists several ids or names for one argument."""
        clues = Clues(self._text[group.start : group.end], self._today)
        call = self._one(group, clues)
        if call.missing and (group.start, group.end) != (0, len(self._text)):
            return [self._one(group, Clues(self._text, self._today))]
        calls = [call]
        known = profile(group.tool).terms
        while not call.missing and len(calls) < MAX_CALLS and clues.continues(known):
            call = self._one(group, clues)
            if (
                call.missing
                or call.key in {each.key for each in calls}
                or call.arguments.keys() < calls[0].arguments.keys()
            ):
                break
            calls.append(call)
        return calls

    def _one(self, group: _Group, clues: Clues) -> PlannedCall:
        tool = group.tool
        known = profile(tool).terms
        reason = f"The words {', '.join(group.why)} match the tool {tool.name}." if group.why else ""
        arguments, missing = Filler(tool.input_schema, clues, known, reason).fill(tool.input_schema)
        if missing or _valid(tool, arguments):
            return PlannedCall(tool, arguments, tuple(missing))
        names = as_list(tool.input_schema.get("required"))
        required = {name: value for name, value in arguments.items() if name in names}
        if _valid(tool, required):
            return PlannedCall(tool, required, ())
        return PlannedCall(tool, {}, tuple(required) or tuple(arguments))


_PROFILES: WeakKeyDictionary[Tool, Profile] = WeakKeyDictionary()


def profile(tool: Tool) -> Profile:
    """The profile of a tool; tools are immutable, so it is made once."""
    found = _PROFILES.get(tool)
    if found is None:
        found = _PROFILES[tool] = Profile(tool)
    return found


def _valid(tool: Tool, arguments: dict[str, Any]) -> bool:
    try:
        tool.validate(arguments)
    except Exception:  # a validator of the application may raise anything: then these are no valid arguments
        return False
    return True


def _clauses(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    for match in islice(_CLAUSES.finditer(text), MAX_CLAUSES):
        end = match.start()
        while end > start and text[end - 1].isspace():  # by the expression it would take quadratic time
            end -= 1
        spans.append((start, end))
        start = match.end()
    spans.append((start, len(text)))
    return [span for span in spans if span[0] < span[1]]


def _says(text: str, phrase: str) -> bool:
    """Whether a lower-case text has the phrase as whole words; Chinese has no word borders."""
    for form in {phrase, phrase.replace("_", " ")}:
        if not form or form not in text:  # most are not: no pattern is compiled for them
            continue
        edge = r"(?<![a-z0-9_])" if form[0].isascii() else ""
        if re.search(edge + re.escape(form) + (r"(?![a-z0-9_])" if form[-1].isascii() else ""), text):
            return True
    return False


def _takes_an_id(tool: Tool) -> bool:
    names = [str(name) for name in as_mapping(tool.input_schema.get("properties"))]
    words = {word for name in names for word in split_name(name)}
    return bool({"id", "ids", "number", "code", "key", "ref"} & words) or any("号" in name for name in names)
