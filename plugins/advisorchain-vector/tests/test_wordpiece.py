"""The tokens are those of the model's own tokenizer; the numbers were made with the package ``tokenizers``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisorchain_vector.wordpiece import END, START, encode, vocabulary

# fmt: off
EXPECTED = {
    "": [101, 102],
    "Will it rain in Paris tomorrow?": [101, 2097, 2009, 4542, 1999, 3000, 4826, 1029, 102],
    "getUserName calculate_area na\xefve CAF\xc9": [
        101, 2131, 20330, 18442, 18422, 1035, 2181, 15743, 7668, 102,
    ],
    "\u5929\u6c14\u9884\u62a5 weather": [101, 1811, 100, 100, 100, 4633, 102],
    "\ufb01ne \u201cquoted\u201d \u2014 dash's": [
        101, 1984, 2638, 1523, 9339, 1524, 1517, 11454, 1005, 1055, 102,
    ],
    "\uc548\ub155 \u0645\u0631\u062d\u0628\u0627": [
        101,
        1463,
        30006,
        30021,
        29992,
        30010,
        30025,
        1295,
        17149,
        29820,
        29816,
        25573,
        102,
    ],
    "a\tb\x00c\u200bd\ufffde": [101, 1037, 4647, 3207, 102],
    "unbelievably antidisestablishmentarianism": [
        101,
        4895,
        8671,
        2666,
        3567,
        6321,
        3424,
        10521,
        4355,
        7875,
        13602,
        3672,
        12199,
        2964,
        102,
    ],
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": [
        101,
        100,
        102,
    ],
    "$4.99 (50%)": [101, 1002, 1018, 1012, 5585, 1006, 2753, 1003, 1007, 102],
}
# fmt: on


@pytest.mark.parametrize("text", EXPECTED)
def test_tokens(text: str) -> None:
    assert encode(text, 256) == EXPECTED[text]


@given(text=st.text(max_size=300), limit=st.integers(2, 40))
def test_any_text(text: str, limit: int) -> None:
    tokens = encode(text, limit)
    assert tokens[0] == START
    assert tokens[-1] == END
    assert 2 <= len(tokens) <= limit
    assert all(0 <= token < len(vocabulary()) for token in tokens)
