"""Splitting names and texts into the words that a search compares.

``getUserName``, ``get_user_name`` and ``math.getUserName`` are split. Words are in lower case, without accents and
without the endings of English plurals. Scripts that put no spaces between words, or that glue articles and particles
to them (Chinese, Japanese, Korean, Thai, Arabic, Hebrew), are split into overlapping pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata

_ASCII_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PAIRED = (
    "\u0590-\u06ff\u0750-\u077f"  # Hebrew, Arabic
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # Japanese, Chinese, Korean
)
_WORDS = re.compile(rf"[{_PAIRED}]+|\d+|[^\W\d_{_PAIRED}]+")
_IS_PAIRED = re.compile(rf"[{_PAIRED}]")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_STOP_WORDS = (
    "a about also am an and any are as at be because been being both but by can could did do does doing each else "
    "few for from further had has have having he hello help her here hers hi him his how i if in into is it its "
    "just know let like ll me might more most must my need nor now of off on once only or other our please re s "
    "same she should so some such t than thank thanks that the their them then there these they this those through "
    "to too until up us ve very want was we were what when where which while who whom whose why will with would you "
    "your yours d m "
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing about a tool; a query that has others is searched without them."""


def split_words(text: str) -> list[str]:
    """The words of a name or text, in order, in lower case."""
    if text.isascii():
        return [word.lower() for word in _ASCII_WORDS.findall(text)]
    words: list[str] = []
    for run in _WORDS.findall(_plain(text)):
        if len(run) > 1 and _IS_PAIRED.match(run):
            words += [run[at : at + 2] for at in range(len(run) - 1)]
        else:
            words.append(run)
    return words


def _plain(text: str) -> str:
    """In lower case, with humps split, without accents and other marks."""
    decomposed = unicodedata.normalize("NFKD", _HUMP.sub(" ", text))
    bare = "".join(char for char in decomposed if not unicodedata.category(char).startswith("M"))
    return unicodedata.normalize("NFC", bare).casefold()


def stem_of(word: str) -> str:
    """A word without the ending of an English plural."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]


def searched_words(words: list[str]) -> list[str]:
    """The words of a query that say something: no stop words and no numbers, unless there is nothing else."""
    return [word for word in words if word not in STOP_WORDS and not word.isdigit()] or words
