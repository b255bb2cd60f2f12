"""Where a key stands: compared with documents whose lines are known because a test wrote them."""

from __future__ import annotations

import json
import time
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisorchain.config.lines import MAX_DEPTH, KeyPath, TooDeepError, key_lines

BARE = st.text("abc_-1", min_size=1, max_size=4)
KEYS = st.one_of(
    BARE, st.text(min_size=0, max_size=4).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text))
)
SCALARS = st.one_of(
    st.integers(-1000, 1000),
    st.booleans(),
    st.text("ab#[]{}=,'\"\\\n \t.", max_size=8),
)


def written_key(key: str) -> str:
    bare = key and all(c in "abcdefghijklmnopqrstuvwxyz_-0123456789" for c in key)
    return key if bare else json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


def written_text(text: str, form: int) -> str:
    if form == 1 and "'" not in text and "\n" not in text:
        return f"'{text}'"
    if form == 2 and '"""' not in text and not text.endswith('"'):
        return '"""\n' + text.replace("\\", "\\\\") + '"""'
    if form == 3 and "'''" not in text and not text.endswith("'"):
        return f"'''\n{text}'''"
    return json.dumps(text)


class Writer:
    """Writes a document, and notes in which line it puts each key."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def put(self, text: str) -> None:
        self.text += text

    def note(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def table(self, table: dict[str, Any], path: KeyPath) -> None:
        later: list[tuple[str, Any]] = []
        for key, value in table.items():
            tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
            if (isinstance(value, dict) or tables) and self.draw(st.booleans()):
                later.append((key, value))
                continue
            self.put(self.draw(st.sampled_from(["", "\n", '# a [comment] = "\n', "  "])))
            self.note((*path, key))
            self.put(f"{written_key(key)}{self.draw(st.sampled_from([' = ', '=', chr(9) + '= ']))}")
            self.value(value, (*path, key))
            self.put(self.draw(st.sampled_from(["\n", " # more ]\n", "\r\n"])))
        for key, value in later:
            items: list[tuple[KeyPath, Any]] = [((), value)]
            if isinstance(value, list):
                items = [((number,), item) for number, item in enumerate(value)]
            for number, item in items:
                self.note((*path, key))
                self.note((*path, key, *number))
                header = ".".join(written_key(part) for part in (*path, key) if isinstance(part, str))
                self.put(f"[[{header}]]\n" if number else f"[{header}]\n")
                self.table(item, (*path, key, *number))

    def value(self, value: Any, path: KeyPath) -> None:
        if isinstance(value, dict):
            self.put("{")
            for number, (key, item) in enumerate(value.items()):
                self.put(", " if number else " ")
                self.note((*path, key))
                self.put(f"{written_key(key)} = ")
                self.value(item, (*path, key))
            self.put("}")
        elif isinstance(value, list):
            self.put("[")
            for number, item in enumerate(value):
                self.put(self.draw(st.sampled_from(["", "\n", " # one, [two\n"])))
                self.note((*path, number))
                self.value(item, (*path, number))
                self.put(",")
            self.put("]")
        elif isinstance(value, str):
            self.put(written_text(value, self.draw(st.integers(0, 3))))
        else:
            self.put(json.dumps(value))


TABLES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, int], dict[str, Any]]:
    table = draw(TABLES)
    writer = Writer(draw)
    writer.table(table, ())
    return writer.text, writer.lines, table


@given(documents())
def test_every_key_of_a_document_is_found_in_its_line(document: tuple[str, dict[KeyPath, int], dict[str, Any]]) -> None:
    text, lines, table = document
    assert tomllib.loads(text) == table  # the test itself writes TOML
    assert key_lines(text.replace("\r\n", "\n")) == lines
    assert key_lines(text) == lines


@given(st.text("ab.=[]{},\"'\\#\n 1", max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    lines = key_lines(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


def test_dotted_keys_and_tables_in_lists() -> None:
    text = 'a.b."c.d" = 1\n[[x]]\ny.z = 2\n[x.w]\nv = 3\n[[x]]\nv = 4\n[[x.q]]\nr = 5\n'
    lines = key_lines(text)
    assert lines["a", "b", "c.d"] == 1
    assert (lines["x", 0, "y", "z"], lines["x", 0, "w", "v"], lines["x", 1, "v"], lines["x", 1, "q", 0, "r"]) == (
        3,
        5,
        7,
        9,
    )
    assert (lines["x",], lines["x", 0], lines["x", 1], lines["x", 1, "q"]) == (2, 2, 6, 8)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "\na = " + "{a=" * 100_000,
        ".".join(["a"] * 100_000) + " = 1",
        "[" + ".".join(["a"] * 100_000) + "]\n" + "b = 1\n" * 100_000,
        "[[" + ".".join(["a"] * (MAX_DEPTH + 1)) + "]]",
        "[" + ".".join(["a"] * MAX_DEPTH) + "]\nb = 1",
    ],
)
def test_what_nests_too_deep_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(TooDeepError):
        key_lines(text)
    assert time.process_time() - start < 1


def test_a_large_file_is_read_in_linear_time() -> None:
    text = "[a]\n" + "".join(f"key_{n} = [{n}, 'x', {{y = {n}}}]\n" for n in range(20_000))
    start = time.process_time()
    assert key_lines(text)["a", "key_19999", 2, "y"] == 20_001
    assert time.process_time() - start < 5
