"""How names and texts are split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisorchain.tool_index.words import searched_words, split_words, stem_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getUserName", ["get", "user", "name"]),
        ("get_user-name", ["get", "user", "name"]),
        ("math.HTTPServer2Go", ["math", "http", "server", "2", "go"]),
        ("parseJSON", ["parse", "json"]),
        ("Café_Größe", ["cafe", "grosse"]),
        ("éléphantRose", ["elephant", "rose"]),
        ("天气预报", ["天气", "气预", "预报"]),
        ("雨", ["雨"]),
        ("查询weather天气", ["查询", "weather", "天气"]),
        ("東京のホテル", ["東京", "京の", "のホ", "ホテ", "テル"]),
        ("날씨", ["날씨"]),
        ("الطَّقس", ["ال", "لط", "طق", "قس"]),
        ("погодаВ", ["погодав"]),
        ("x²", ["x", "2"]),
        ("", []),
        ("_-. !", []),
        ("🙂", []),
    ],
)
def test_split(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_full_width_and_ligatures_are_read_as_letters() -> None:
    assert split_words("ＡＢＣ") == ["abc"]
    assert split_words("ﬁle") == ["file"]


@pytest.mark.parametrize(
    ("word", "stem"),
    [("cities", "city"), ("users", "user"), ("class", "class"), ("status", "status"), ("axis", "axis"), ("gas", "gas")],
)
def test_stems(word: str, stem: str) -> None:
    assert stem_of(word) == stem


def test_stop_words_and_numbers_go_unless_nothing_is_left() -> None:
    assert searched_words(["what", "is", "the", "weather", "42"]) == ["weather"]
    assert searched_words(["who", "are", "you"]) == ["who", "are", "you"]
    assert searched_words([]) == []


@given(st.text(max_size=200))
def test_any_text_is_split_into_lower_case_words(text: str) -> None:
    words = split_words(text)
    assert all(words)
    assert not any(char.isspace() for word in words for char in word)
    assert split_words(" ".join(words)) == words or not text.isascii()
