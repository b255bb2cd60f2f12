"""WordPiece, as the model BERT (uncased) reads texts: from a text to the numbers of its tokens."""

from __future__ import annotations

import gzip
import unicodedata
from functools import cache
from pathlib import Path

UNKNOWN, START, END = 100, 101, 102
"""The numbers of ``[UNK]``, ``[CLS]`` and ``[SEP]`` in the vocabulary."""

MAX_WORD = 100
"""Characters of a word; a longer one is unknown."""

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@cache
def vocabulary() -> dict[str, int]:
    """The tokens of ``bert-base-uncased`` (Apache-2.0) and their numbers; what follows inside a word begins with ##."""
    packed = Path(__file__).with_name("vocabulary.txt.gz").read_bytes()
    return {token: number for number, token in enumerate(gzip.decompress(packed).decode("utf-8").split("\n"))}


def encode(text: str, limit: int) -> list[int]:
    """The numbers of a text's tokens, between START and END; at most ``limit``, what is longer is cut."""
    numbers = [START]
    for word in _words(text):
        numbers += _pieces(word)
        if len(numbers) >= limit:
            del numbers[limit - 1 :]
            break
    numbers.append(END)
    return numbers


def _words(text: str) -> list[str]:
    spaced: list[str] = []
    for char in text:
        if char.isascii():
            if char.isalnum():
                spaced.append(char)
            elif char.isspace():
                spaced.append(" ")
            elif char.isprintable():
                spaced.append(f" {char} ")
            continue
        category = unicodedata.category(char)
        if category == "Zs":
            spaced.append(" ")
        elif any(first <= ord(char) <= last for first, last in _IDEOGRAPHS):
            spaced.append(f" {char} ")
        elif char != "\ufffd" and category[0] != "C":
            spaced.append(char)
    bare = "".join(spaced)
    if not bare.isascii():
        kept = (char for char in unicodedata.normalize("NFD", bare) if unicodedata.category(char) != "Mn")
        bare = "".join(f" {char} " if unicodedata.category(char)[0] == "P" else char for char in kept)
    return bare.lower().split()


def _pieces(word: str) -> list[int]:
    """The longest token that the word begins with, and so on."""
    tokens = vocabulary()
    whole = tokens.get(word)
    if whole is not None:
        return [whole]
    if len(word) > MAX_WORD:
        return [UNKNOWN]
    numbers: list[int] = []
    start = 0
    while start < len(word):
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            number = tokens.get(mark + word[start:end])
            if number is not None:
                break
        else:
            return [UNKNOWN]
        numbers.append(number)
        start = end
    return numbers
