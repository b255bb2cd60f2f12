"""`Pattern`: the part of regular expressions that `RegexIndex` understands without google-re2."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, NoReturn

from ..errors import ToolError
from .words import split_words

MAX_BRANCHES = 64
"""Alternatives that a pattern may have when its groups and optional characters are written out."""

MAX_PIECES = 100
"""Different words and parts of words in all alternatives."""

_SEPARATORS = frozenset("sSbBWDd")  # classes after a backslash that stand between words, or for anything
_GAP = "\x00"  # anything, or nothing
_EDGE = "\x01"  # the border of a word


class Piece(NamedTuple):
    """A part of a word that must be there; a whole word when it is bound at both ends."""

    text: str
    start: bool
    end: bool

    def fits(self, word: str) -> bool:
        """Whether a word has it."""
        if self.start:
            return word == self.text if self.end else word.startswith(self.text)
        return word.endswith(self.text) if self.end else self.text in word


class Pattern:
    """Words and parts of words, matched against the words that names and texts are split into.

    Understood: letters and digits, ``|``, groups, ``?`` after a character or group, ``.`` ``.*`` ``.+`` (anything),
    ``\\s`` ``\\b`` ``\\w*`` ``^`` ``$`` (gaps and borders of words), ``(?i)``. The words of one alternative may stand
    anywhere in the tool, in any order. The time is linear in the number of words, whatever the pattern is.

    Raises:
        ToolError: says what is not understood, at which character, and what to write instead.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        branches = self._alternatives(0)
        if self._at < len(text):
            self._fail(f"{text[self._at]!r} closes nothing")
        self._branches = {tuple(pieces) for branch in branches if (pieces := _pieces(branch))}
        self._pieces = {piece for branch in self._branches for piece in branch}
        if len(self._pieces) > MAX_PIECES:
            raise ToolError(f"The pattern has {len(self._pieces)} words; at most {MAX_PIECES} are taken. Shorten it.")

    def match(
        self, tools: Mapping[str, Mapping[str, float]], vocabulary: Collection[str]
    ) -> dict[str, dict[Any, float]]:
        """The tools (their words with weights) that match, with what matched: pieces and their highest weights."""
        words_of = {piece: {word for word in vocabulary if piece.fits(word)} for piece in self._pieces}
        found: dict[str, dict[Any, float]] = {}
        for name, words in tools.items():
            weights: dict[Piece, float] = {}
            for piece, fitting in words_of.items():
                common = words.keys() & fitting if fitting else fitting
                if common:
                    weights[piece] = max(words[word] for word in common)
            if weights:
                matches = {
                    piece: weights[piece]
                    for branch in self._branches
                    if all(piece in weights for piece in branch)
                    for piece in branch
                }
                if matches:
                    found[name] = matches
        return found

    def _fail(self, what: str) -> NoReturn:
        raise ToolError(
            f"The pattern is not understood at character {self._at + 1}: {what}. Write words, |, groups, .* and ?, for "
            "example weather|forecast."
        )

    def _alternatives(self, depth: int) -> list[str]:
        """Read up to the closing parenthesis or the end; each alternative written out."""
        done: list[str] = []
        current = [""]
        while self._at < len(self._text) and self._text[self._at] != ")":
            char = self._text[self._at]
            if char == "|":
                done += current
                current = [""]
                self._at += 1
            else:
                parts = self._optional(self._atom(char, depth))
                current = [before + part for before in current for part in parts]
            if len(done) + len(current) > MAX_BRANCHES:
                raise ToolError(f"The pattern has over {MAX_BRANCHES} alternatives. Write fewer.")
        return done + current

    def _atom(self, char: str, depth: int) -> list[str]:
        if char == "(":
            return self._group(depth)
        if char == "\\":
            return [self._escape()]
        if char in "[{*+?":
            self._fail(f"{char!r} needs google-re2" if char in "[{" else f"{char!r} has nothing before it")
        self._at += 1
        return [_GAP if char == "." else _EDGE if char in "^$" else char]

    def _group(self, depth: int) -> list[str]:
        start = self._at
        rest = self._text[start:]
        if rest.startswith("(?i)"):
            self._at += 4
            return [""]
        if depth > 10:
            self._fail("groups are nested too deep")
        self._at += 3 if rest.startswith("(?:") else 1
        if self._text[self._at : self._at + 1] == "?":
            self._fail("this kind of group needs google-re2")
        branches = self._alternatives(depth + 1)
        if self._at == len(self._text):
            self._at = start
            self._fail("'(' is not closed")
        self._at += 1
        return branches

    def _escape(self) -> str:
        char = self._text[self._at + 1 : self._at + 2]
        if not char:
            self._fail("a backslash at the end")
        if char == "w":
            self._at += 2
            return _GAP
        if char in _SEPARATORS:
            self._at += 2
            return _GAP if char in "SBDd" else _EDGE
        if char.isalnum():
            self._fail(f"'\\{char}' needs google-re2")
        self._at += 2
        return char

    def _optional(self, parts: list[str]) -> list[str]:
        """The alternatives of what was just read, with the quantifier behind it."""
        sign = self._text[self._at : self._at + 1]
        if not sign or sign not in "?*+":
            return parts
        if sign != "?" and any(part not in (_GAP, _EDGE) for part in parts):
            self._fail(f"{sign!r} after anything but '.' needs google-re2")
        self._at += 1
        if sign != "?" and self._text[self._at : self._at + 1] == "?":  # not greedy: the same here
            self._at += 1
        return parts if sign == "+" or parts == [_GAP] else [*parts, ""]


def _pieces(branch: str) -> list[Piece]:
    """The parts of words of one alternative; where the pattern goes on with something else, a word may too."""
    pieces: list[Piece] = []
    for run, bound_start, bound_end in _runs(branch):
        words = split_words(run)
        for at, word in enumerate(words):
            start = at > 0 or bound_start or not run[0].isalnum()
            end = at < len(words) - 1 or bound_end or not run[-1].isalnum()
            pieces.append(Piece(word, start, end))
    return pieces


def _runs(branch: str) -> list[tuple[str, bool, bool]]:
    """What stands between gaps and edges, and whether an edge is before and behind it."""
    runs: list[tuple[str, bool, bool]] = []
    run, bound = "", False
    for char in branch + _GAP:
        if char in (_GAP, _EDGE):
            if run:
                runs.append((run, bound, char == _EDGE))
                run = ""
            bound = char == _EDGE
        else:
            run += char
    return runs
