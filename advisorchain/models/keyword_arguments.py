"""Arguments from a text, by JSON schema: what the text does not say stays out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .keyword_text import STOP_WORDS, Clue, Clues, is_chinese, split_name, stem, terms, words_of

Schema = Mapping[str, Any]


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one: a schema of somebody else may hold anything."""
    return value if isinstance(value, list) else []


def as_mapping(value: object) -> Schema:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


MISSING: Final[Any] = object()
"""What `Filler.value` gives when the text says nothing."""
MAX_DEPTH = 6
"""How deep schemas may nest."""

_IDS = words_of("id ids no number num code key ref reference uuid identifier ticket 编号 单号")
_WHOLE = words_of("prompt question text message input content body sentence task instruction instructions")
_QUERIES = words_of("query q keyword keywords topic search term terms phrase pattern subject")
_PLACES = words_of("city location place destination origin country address region from to where town")
_PEOPLE = words_of("name person user username customer employee author who recipient")
_ADDRESSEES = words_of("to cc bcc recipient recipients receiver sender")
_REASONS = words_of("thought thoughts reasoning rationale reason why")
_FROM = words_of("from origin source departure start")
_TO = words_of("to destination target arrival end")
_EXPRESSION = re.compile(r"[\d(][\d\s+*/().^×÷-]*[\d)]")
_AFTER = re.compile(
    r"\b(?:in|for|at|near|of|about|on|to|named|called|from)\s+([A-Za-z][\w'-]*(?:\s+[A-Za-z][\w'-]*){0,2})", re.I
)
_NO = re.compile(
    r"\b(?:no|not|without|don't|never|exclude|excluding)\s+(?:\w+\s+)?$|(?:不|别|无)[\u4e00-\u9fff]?$", re.I
)
_YES_NO = {"true": True, "yes": True, "false": False, "no": False}


class Filler:
    """Fills one schema from the clues of a text.

    Args:
        root: the schema that ``$ref`` points into.
        clues: of the text; what is filled in is taken.
        known: the tool's own terms, which are never arguments.
        reason: for arguments that ask why the tool is called.
    """

    def __init__(self, root: Schema, clues: Clues, known: set[str], reason: str = "") -> None:
        self._root = root
        self._clues = clues
        self._known = known
        self._reason = reason

    def fill(self, schema: Schema, depth: int = 0) -> tuple[dict[str, Any], list[str]]:
        """The properties that the text says, and the required ones that it does not."""
        properties = as_mapping(schema.get("properties"))
        required = [name for name in as_list(schema.get("required")) if name in properties]
        found: dict[str, Any] = {}
        # Named in the text first, then what is recognised by its form, then loose words: each clue is used once.
        for rank in range(3):
            for name, prop in properties.items():
                if name in found or not isinstance(prop, Mapping):
                    continue
                value = self._ranked(name, as_mapping(prop), rank, name in required, depth)
                if value is not MISSING:
                    found[name] = value
        ordered = {name: found[name] for name in properties if name in found}
        return ordered, [name for name in required if name not in found]

    def value(self, schema: Schema) -> Any:
        """One value for a schema of any type, or `MISSING`."""
        for rank in range(3):
            value = self._ranked("", schema, rank, True, 0)
            if value is not MISSING:
                return value
        return MISSING

    # One value -------------------------------------------------------------------------------------------------------

    def _ranked(self, name: str, schema: Schema, rank: int, required: bool, depth: int) -> Any:
        if depth > MAX_DEPTH:
            return MISSING
        for option in self._options(schema):
            if rank == 0:
                value = self._named(name, option)
            elif rank == 1:
                value = self._formed(name, option, required, depth)
            else:
                value = self._loose(name, option, required)
            if value is not MISSING and _within(value, option):
                return value
        return MISSING

    def _options(self, schema: Schema) -> list[Schema]:
        """The schema without references, unions and null."""
        seen = 0
        while isinstance(reference := schema.get("$ref"), str) and seen < MAX_DEPTH:
            target: Any = self._root
            for part in reference.removeprefix("#/").split("/"):
                target = as_mapping(target).get(part)
            if not isinstance(target, Mapping):
                return []
            schema = {**as_mapping(target), **{key: value for key, value in schema.items() if key != "$ref"}}
            seen += 1
        for union in ("anyOf", "oneOf", "allOf"):
            options = [as_mapping(option) for option in as_list(schema.get(union))]
            if not options or seen >= MAX_DEPTH:
                continue
            around = {key: value for key, value in schema.items() if key not in (union, "default")}
            found: list[Schema] = []
            for option in options:
                if option.get("type") != "null":
                    found += self._options(option) if "$ref" in option else [{**around, **option}]
            return found
        kind = schema.get("type")
        if isinstance(kind, list):
            return [{**schema, "type": each} for each in as_list(kind) if each != "null"]
        return [schema]

    def _named(self, name: str, schema: Schema) -> Any:
        """``name=value``, ``name: value``, ``name is value``."""
        if not name or _kind(schema) not in ("string", "integer", "number", "boolean"):
            return MISSING
        spoken = r"[\s_-]?".join(map(re.escape, split_name(name))) or re.escape(name)
        value = r"(\"[^\"]*\"|[^\s,，。;；?？!！]+)"
        pattern = rf"(?<![A-Za-z0-9])(?:{re.escape(name)}|{spoken})\s*(?:[=:：]|\s(?:is|of)\s|为|是)\s*{value}"
        for match in re.finditer(pattern, self._clues.text, re.I):
            word = match[1].strip("\"'.")
            if word.lower() in STOP_WORDS or self._clues.is_taken(*match.span(1)):
                continue
            converted = _converted(word, schema)
            if converted is not MISSING and _within(converted, schema):
                self._clues.mark(*match.span(1))
                return converted
        return MISSING

    def _formed(self, name: str, schema: Schema, required: bool, depth: int) -> Any:
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list):
            return self._choice(as_list(schema["enum"]))
        kind = _kind(schema)
        if kind == "boolean":
            return self._flag(name, required)
        if kind in ("integer", "number"):
            return self._number(name, schema, required)
        if kind == "array":
            return self._list(name, schema, required, depth)
        if kind == "object":
            values, missing = self.fill(schema, depth + 1)
            return MISSING if missing or not values else values
        return self._text_of_a_form(name, schema) if kind == "string" else MISSING

    def _choice(self, values: list[Any]) -> Any:
        """The value that the text names; in the text's order, for several arguments of one kind."""
        text = self._clues.text.lower()
        best: tuple[int, int, int, Any] | None = None
        for index, value in enumerate(values):
            spelled = str(value).lower()
            if value is None or not spelled:
                continue
            for form in {spelled, spelled.replace("_", " "), spelled.replace("-", " ")}:
                edge = "" if is_chinese(form) else r"(?<![a-z0-9])"
                match = re.search(edge + re.escape(form) + (r"(?![a-z0-9])" if edge else ""), text)
                if match and not self._clues.is_taken(*match.span()):
                    candidate = (match.start(), -len(form), index, value)
                    if best is None or candidate[:3] < best[:3]:
                        best = candidate
        if best is None:
            return MISSING
        self._clues.mark(best[0], best[0] - best[1])
        return best[3]

    def _flag(self, name: str, required: bool) -> Any:
        for word in [name, *split_name(name)]:
            if len(word) < 3 or word in STOP_WORDS:
                continue
            match = re.search(rf"(?<![A-Za-z]){re.escape(word)}", self._clues.text, re.I)
            if match:
                return _NO.search(self._clues.text[: match.start()]) is None
        answer = re.search(r"\b(true|false|yes|no)\b", self._clues.text, re.I) if required else None
        return MISSING if answer is None else _YES_NO[answer[1].lower()]

    def _number(self, name: str, schema: Schema, required: bool) -> Any:
        words = {stem(word) for word in split_name(name)} - {"max", "min", "num", "numb", "count", "of"}

        def near(clue: Clue) -> bool:
            text = self._clues.text
            around = (
                split_name(text[max(0, clue.start - 25) : clue.start])[-1:]
                + split_name(text[clue.end : clue.end + 25])[:1]
            )
            return any(stem(word) in words for word in around)

        def fits(clue: Clue) -> bool:
            value = _converted(clue.value, schema)
            return value is not MISSING and _within(value, schema)

        value = self._clues.take("number", lambda clue: fits(clue) and near(clue))
        if value is None and required:
            value = self._clues.take("number", fits)
        return MISSING if value is None else _converted(value, schema)

    def _list(self, name: str, schema: Schema, required: bool, depth: int) -> Any:
        items = schema.get("items")
        if not isinstance(items, Mapping):
            return MISSING
        found: list[Any] = []
        for _ in range(50):
            for rank in (1, 2):
                item = self._ranked(name, as_mapping(items), rank, required, depth + 1)
                if item is not MISSING:
                    break
            if item is MISSING or item in found:
                break
            found.append(item)
        least = schema.get("minItems")
        return found if found and not (isinstance(least, int) and len(found) < least) else MISSING

    def _text_of_a_form(self, name: str, schema: Schema) -> Any:
        """A date, an address, an id: recognised by how it is written."""
        words = set(split_name(name)) | {name}
        clues, form = self._clues, schema.get("format")
        if form == "date-time":
            value = clues.take("datetime")
            if value is None and (day := clues.take("date")) is not None:
                value = f"{day}T{clues.take('time') or '00:00'}:00"
            return MISSING if value is None else value
        kinds = {"date": "date", "time": "time", "email": "email", "uri": "url", "url": "url", "uuid": "id"}
        kind = kinds.get(str(form)) or next((kinds[word] for word in kinds if word in words), None)
        if kind is None and words & {"day", "mail", "link"}:
            kind = {"day": "date", "mail": "email", "link": "url"}[min(words & {"day", "mail", "link"})]
        if kind is not None:
            found = clues.take(kind, lambda clue: _within(clue.value, schema))
            if found is not None:
                return found
            return MISSING
        if words & _ADDRESSEES and (address := clues.take("email")) is not None:
            return address
        if self._is_id(name, schema):

            def fits(clue: Clue) -> bool:
                return _within(clue.value, schema)

            return clues.take("id", fits) or clues.take("number", fits) or MISSING
        if isinstance(schema.get("pattern"), str):
            for each in ("id", "number", "name", "quoted"):
                if found := clues.take(each, lambda clue: _within(clue.value, schema)):
                    return found
        return MISSING

    def _is_id(self, name: str, schema: Schema) -> bool:
        if set(split_name(name)) & _IDS or any(word in name for word in ("编号", "单号")):
            return True
        described = str(schema.get("description", ""))
        return (
            re.search(r"\bids?\b|\bidentifier\b", described, re.I) is not None
            or "编号" in described
            or "单号" in described
        )

    # Loose words -----------------------------------------------------------------------------------------------------

    def _loose(self, name: str, schema: Schema, required: bool) -> Any:
        if _kind(schema) != "string" or "enum" in schema or "const" in schema or schema.get("format"):
            return MISSING
        if self._is_id(name, schema):
            return MISSING
        words = set(split_name(name))
        about_something = bool(words & (_PLACES | _PEOPLE | _QUERIES))
        if not required and not about_something:
            return MISSING
        value = self._loose_text(words, required)
        return MISSING if value is None else value

    def _loose_text(self, words: set[str], required: bool) -> str | None:
        clues = self._clues
        if words & _REASONS and self._reason:
            return self._reason
        if "expression" in words or "formula" in words:
            match = _EXPRESSION.search(clues.text)
            return match[0].strip() if match else None
        if (quoted := clues.take("quoted")) is not None:
            return quoted
        if words & _WHOLE:
            return clues.text.strip() or None
        for side, before in ((_FROM, r"(?:\bfrom\s+|从)$"), (_TO, r"(?:\bto\s+|到|去)$")):
            if words & side:
                wanted = re.compile(before, re.I)
                named = clues.take("name", lambda clue, r=wanted: r.search(clues.text[: clue.start]) is not None)  # type: ignore[misc]
                if named is not None:
                    return named
        named = clues.take("name") or self._chinese_rest() or (self._after_preposition() if required else None)
        if named is None and required and words & _QUERIES:
            return clues.text.strip() or None
        return named

    def _chinese_rest(self) -> str | None:
        for piece, start in self._clues.rest(self._known):
            self._clues.mark(start, start + len(piece))
            return piece
        return None

    def _after_preposition(self) -> str | None:
        for match in reversed(list(_AFTER.finditer(self._clues.text))):
            words: list[str] = []
            for word in match[1].split():
                if (
                    word.lower() in STOP_WORDS
                    or word.lower() in ("today", "tomorrow", "yesterday")
                    or terms(word) & self._known
                ):
                    break
                words.append(word)
            if words and not self._clues.is_taken(*match.span(1)):
                self._clues.mark(*match.span(1))
                return " ".join(words)
        return None


# Values --------------------------------------------------------------------------------------------------------------


def _kind(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string"


def _converted(text: str, schema: Schema) -> Any:
    """A text as the schema's type, or `MISSING`."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        return next((choice for choice in as_list(choices) if str(choice).lower() == text.lower()), MISSING)
    kind = _kind(schema)
    if kind == "boolean":
        return _YES_NO.get(text.lower(), MISSING)
    if kind in ("integer", "number"):
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            return MISSING
        if number != number or number in (float("inf"), float("-inf")):
            return MISSING
        if number.is_integer() and "e" not in text.lower():
            return int(number) if "." in text else int(text.replace(",", ""))
        return MISSING if kind == "integer" else number
    return text


def _within(value: Any, schema: Schema) -> bool:
    """Whether a value keeps the schema's simple bounds; the tool's own validation looks at the rest."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        bounds = {name: schema.get(name) for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")}
        low, high, over, under = (bound if isinstance(bound, int | float) else None for bound in bounds.values())
        return not (
            (low is not None and value < low)
            or (high is not None and value > high)
            or (over is not None and value <= over)
            or (under is not None and value >= under)
        )
    if isinstance(value, str):
        shortest, longest = schema.get("minLength"), schema.get("maxLength")
        if isinstance(shortest, int) and len(value) < shortest:
            return False
        if isinstance(longest, int) and len(value) > longest:
            return False
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            try:
                return re.search(pattern, value[:200]) is not None
            except re.error:
                return True
    return True
