"""What reaches the terminal."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from advisorchain.cli.demo import described_call
from advisorchain.cli.display import Flow, clean, packed, print_wrapped, shortened


def console(width: int, terminal: bool = True) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
    return Console(file=out, width=width, force_terminal=terminal, **options), out


def flowed(pieces: list[str], width: int, terminal: bool = True, indent: int = 0) -> str:
    target, out = console(width, terminal)
    flow = Flow(target, indent)
    for piece in pieces:
        flow.write(piece)
    flow.end_line()
    return out.getvalue()


def test_controls_are_stripped_and_text_stays() -> None:
    assert clean("a\x1b[31mb\x07\x9b\x85c\u202ed\u2066\u200e\x7f\x00") == "a[31mbcd"
    assert clean("tab\tnewline\n[bold]é 中文 😀") == "tab\tnewline\n[bold]é 中文 😀"
    assert clean("a\r\nb\rc") == "a\nbc"
    assert clean("\ud800").encode() == b"?"


@given(st.text())
def test_no_control_survives(text: str) -> None:
    left = set(clean(text)) & {chr(code) for code in [*range(32), *range(127, 160), *range(0x202A, 0x202F)]}
    assert left <= {"\n", "\t"}


WORDS = st.lists(st.sampled_from(["a", "bcd", "longer-word", "状态", "。", "TR001", "\n"]), max_size=30)


@given(words=WORDS, size=st.integers(1, 7), width=st.integers(16, 40), indent=st.integers(0, 4))
def test_a_terminal_wraps_at_words_and_loses_nothing(words: list[str], size: int, width: int, indent: int) -> None:
    text = " ".join(words)
    shown = flowed([text[at : at + size] for at in range(0, len(text), size)], width, indent=indent)
    assert all(cell_len(line) <= width for line in shown.split("\n"))
    assert "".join(shown.split()) == "".join(text.split())
    assert shown == flowed([text], width, indent=indent), "the size of the pieces does not matter"


@given(text=st.text("ab \n状", max_size=40), size=st.integers(1, 5))
def test_what_is_no_terminal_gets_the_text_as_it_is(text: str, size: int) -> None:
    shown = flowed([text[at : at + size] for at in range(0, len(text), size)], 20, terminal=False)
    assert shown == text + ("\n" if text and not text.endswith("\n") else "")


def test_closing_punctuation_does_not_begin_a_line() -> None:
    assert flowed(["状态状态状态状。"], 16) == "状态状态状态状。\n"
    assert flowed(["状态状态状态状态。"], 16) == "状态状态状态状\n态。\n"


def test_shortened_counts_columns() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…"
    assert shortened("状态状态", 5) == "状态…"
    assert shortened("a\nb\x1b", 9) == "a b"


def test_packed_fills_lines() -> None:
    assert packed(["aa", "bb", "cc"], 7) == ["aa · bb", "cc"]
    assert packed([], 7) == []


def test_a_call_is_one_short_clean_line() -> None:
    assert described_call("f", {"a": 1, "名": "x\n"}) == 'f(a=1, 名="x\\n")'
    assert described_call("f\x1b", '{"a": \x1b}') == 'f({"a": })'
    assert described_call("f", None) == "f()"
    assert cell_len(described_call("f" * 500, {"a": "b" * 500}, 30)) <= 62


def test_long_lines_hang() -> None:
    target, out = console(30)
    print_wrapped(target, "  tool  some.long.module.name.with.parts  direct", 2, hanging=2)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 30 for line in lines) and all(line.startswith("      ") for line in lines[1:])
    target, out = console(30, terminal=False)
    print_wrapped(target, "x" * 50 + " y")
    assert out.getvalue() == "x" * 50 + " y\n"
