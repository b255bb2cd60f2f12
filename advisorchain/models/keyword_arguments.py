"""Arguments from a text, by JSON schema: what the text does not say stays out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .keyword_schema import MISSING, YES_NO, Schema, as_list, as_mapping, converted, kind_of, within
from .keyword_text import STOP_WORDS, Clue, Clues, is_chinese, split_name, stem, terms, words_of

MAX_DEPTH = 4
"""How deep schemas may nest; they may refer to themselves."""
MAX_VALUES = 2_000
"""How many values are looked for in one schema."""
MAX_OPTIONS = 8
"""How many members of a union are tried."""

_IDS = words_of("id ids no number num code key ref reference uuid identifier ticket 编号 单号")
_PROMPTS = words_of("prompt question task instruction instructions")
_WHOLE = words_of("text message input content body sentence")
_QUERIES = words_of("query q keyword keywords topic search term terms phrase pattern subject")
_PLACES = words_of("city location place destination origin country address region from to where town")
_PEOPLE = words_of("name person user username customer employee author who recipient")
_ADDRESSEES = words_of("to cc bcc recipient recipients receiver sender")
_REASONS = words_of("thought thoughts reasoning rationale reason why")
_FROM = words_of("from origin source departure start")
_TO = words_of("to destination target arrival end")
_BEFORE_FROM = re.compile(r"(?:\bfrom\s+|从)$", re.I)
_BEFORE_TO = re.compile(r"(?:\bto\s+|[到去往飞])$", re.I)
_NOWHERE = re.compile(r"(?!)")
_EXPRESSION = re.compile(r"[\d(][\d\s+*/().^×÷-]*[\d)]")
_AFTER = re.compile(
    r"\b(?:in|for|at|near|of|about|on|to|named|called|from)\s+([A-Za-z][\w'-]*(?:\s+[A-Za-z][\w'-]*){0,2})", re.I
)
_NO = re.compile(
    r"\b(?:no|not|without|don't|never|exclude|excluding)\s+(?:\w+\s+)?$|(?:不|别|无)[\u4e00-\u9fff]?$", re.I
)


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
        self._looked = 0

    def fill(self, schema: Schema, depth: int = 0) -> tuple[dict[str, Any], list[str]]:
        """The properties that the text says, and the required ones that it does not."""
        properties = as_mapping(schema.get("properties"))
        required = [name for name in as_list(schema.get("required")) if isinstance(name, str) and name in properties]
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
        self._looked += 1
        if depth > MAX_DEPTH or self._looked > MAX_VALUES:
            return MISSING
        for option in self._options(schema):
            if rank == 0:
                value = self._named(name, option)
            elif rank == 1:
                value = self._formed(name, option, required, depth)
            else:
                value = self._loose(name, option, required)
            if value is not MISSING and within(value, option):
                return value
        return MISSING

    def _options(self, schema: Schema, depth: int = 0) -> list[Schema]:
        """The schema without references, unions and null."""
        if depth > MAX_DEPTH:
            return []
        if isinstance(reference := schema.get("$ref"), str):
            target: Any = self._root
            for part in reference.removeprefix("#/").split("/"):
                target = as_mapping(target).get(part)
            around = {key: value for key, value in schema.items() if key != "$ref"}
            return self._options({**as_mapping(target), **around}, depth + 1) if target is not None else []
        for union in ("anyOf", "oneOf", "allOf"):
            options = [as_mapping(option) for option in as_list(schema.get(union))]
            if options:
                around = {key: value for key, value in schema.items() if key not in (union, "default")}
                wanted = [{**around, **option} for option in options if option.get("type") != "null"]
                return [found for option in wanted[:MAX_OPTIONS] for found in self._options(option, depth + 1)]
        kind = schema.get("type")
        if isinstance(kind, list):
            return [{**schema, "type": each} for each in as_list(kind) if each != "null"]
        return [schema]

    def _named(self, name: str, schema: Schema) -> Any:
        """``name=value``, ``name: value``, ``name is value``."""
        if not name or kind_of(schema) not in ("string", "integer", "number", "boolean"):
            return MISSING
        spoken = r"[\s_-]?".join(map(re.escape, split_name(name))) or re.escape(name)
        said = r"(\"[^\"]*\"|[^\s,，。;；?？!！]+)"
        pattern = rf"(?<![A-Za-z0-9])(?:{re.escape(name)}|{spoken})\s*(?:[=:：]|\s(?:is|of)\s|为|是)\s*{said}"
        for match in re.finditer(pattern, self._clues.text, re.I):
            word = match[1].strip("\"'.")
            if word.lower() in STOP_WORDS or self._clues.is_taken(*match.span(1)):
                continue
            value = converted(word, schema)
            if value is not MISSING and within(value, schema):
                self._clues.mark(*match.span(1))
                return value
        return MISSING

    def _formed(self, name: str, schema: Schema, required: bool, depth: int) -> Any:
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list):
            return self._choice(as_list(schema["enum"]))
        kind = kind_of(schema)
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
        return MISSING if answer is None else YES_NO[answer[1].lower()]

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
            value = converted(clue.value, schema)
            return value is not MISSING and within(value, schema)

        value = self._clues.take("number", lambda clue: fits(clue) and near(clue))
        if value is None and required:
            value = self._clues.take("number", fits)
        return MISSING if value is None else converted(value, schema)

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
            found = clues.take(kind, lambda clue: within(clue.value, schema))
            if found is not None:
                return found
            return MISSING
        if words & _ADDRESSEES and (address := clues.take("email")) is not None:
            return address
        if self._is_id(name, schema):

            def fits(clue: Clue) -> bool:
                return within(clue.value, schema)

            return clues.take("number" if not clues.has("id") else "id", fits) or MISSING
        if isinstance(schema.get("pattern"), str):
            for each in ("id", "number", "name", "quoted"):
                if found := clues.take(each, lambda clue: within(clue.value, schema)):
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
        if kind_of(schema) != "string" or "enum" in schema or "const" in schema or schema.get("format"):
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
        if words & _PROMPTS:
            return clues.text.strip() or None
        if (quoted := clues.take("quoted")) is not None:
            return quoted
        if words & _WHOLE:
            return clues.text.strip() or None
        wanted, other = (_BEFORE_FROM, _BEFORE_TO) if words & _FROM else (_BEFORE_TO, _BEFORE_FROM)
        if not words & (_FROM | _TO):
            other = _NOWHERE
        elif (named := clues.take("name", lambda clue: self._stands_after(wanted, clue.start))) is not None:
            return named

        def fits(clue: Clue) -> bool:
            return not terms(clue.value) <= self._known and not self._stands_after(other, clue.start)

        named = clues.take("name", fits) or self._chinese_rest(other)
        if named is None and required:
            named = self._after_preposition(other)
        if named is None and required and words & _QUERIES:
            return clues.text.strip() or None
        return named

    def _stands_after(self, before: re.Pattern[str], position: int) -> bool:
        return before.search(self._clues.text[:position]) is not None

    def _chinese_rest(self, other: re.Pattern[str]) -> str | None:
        for piece, start in self._clues.rest(self._known):
            if not self._stands_after(other, start):
                self._clues.mark(start, start + len(piece))
                return piece
        return None

    def _after_preposition(self, other: re.Pattern[str]) -> str | None:
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
            taken = self._clues.is_taken(*match.span(1)) or self._stands_after(other, match.start(1))
            if words and not taken:
                self._clues.mark(*match.span(1))
                return " ".join(words)
        return None
