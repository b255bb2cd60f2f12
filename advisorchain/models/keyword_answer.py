"""The sentences of `KeywordModel`: made from tool results, in the user's language, and nothing added."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .keyword_schema import as_list, as_mapping

MAX_RESULT = 2_000
"""How many characters of one result a sentence quotes."""
MAX_ENTRIES = 10
"""How many entries of a list a sentence names."""


class Outcome(NamedTuple):
    """What a call gave: the tool's title, the text of its result, and whether that is an error."""

    title: str
    text: str
    is_error: bool


def cannot_help(chinese: bool, titles: Sequence[str]) -> str:
    """The one sentence that says what this model is, when no tool matches."""
    listed = ("、" if chinese else ", ").join(titles[:MAX_ENTRIES])
    if chinese:
        if not titles:
            return "我是一个基于规则的离线替身，不是语言模型：没有工具，我无法回答。"
        return f"我是一个基于规则的离线替身，不是语言模型：您的话没有匹配到任何工具（{listed}），所以我无法回答。"
    if not titles:
        return "I am a rule-based offline stand-in, not a language model: without tools I cannot answer."
    return (
        "I am a rule-based offline stand-in, not a language model: your words match none of my tools "
        f"({listed}), so I cannot answer."
    )


def may_not_call(chinese: bool) -> str:
    """The one sentence for a request that forbids tools before any has answered."""
    if chinese:
        return "我是一个基于规则的离线替身，不是语言模型：这次请求不允许调用工具，所以我无法回答。"
    return "I am a rule-based offline stand-in, not a language model: I may not call tools now, so I cannot answer."


def ask_for(chinese: bool, title: str, missing: Sequence[str]) -> str:
    """Ask for what a tool needs."""
    names = ("、" if chinese else ", ").join(missing)
    if chinese:
        return f"要使用“{title}”，还需要：{names}。请补充后再问一次。"
    return f"To use {title} I still need: {names}. Please ask again with that."


def from_results(chinese: bool, outcomes: Iterable[Outcome]) -> str:
    """Sentences from the results, one line per call."""
    return "\n".join(_sentence(chinese, outcome) for outcome in outcomes)


def _sentence(chinese: bool, outcome: Outcome) -> str:
    title, text = outcome.title, _spoken(outcome.text, chinese)
    if outcome.is_error:
        text = text or ("没有说明原因" if chinese else "no reason given")
        return f"“{title}”未能完成：{text}" if chinese else f"{_capital(title)} could not do it: {text}"
    if not text:
        return f"“{title}”没有返回内容。" if chinese else f"{_capital(title)} returned nothing."
    return f"根据“{title}”的结果：{text}" if chinese else f"According to {title}: {text}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _spoken(content: str, chinese: bool) -> str:
    """A result as words: JSON becomes "key: value" pairs, text stays as it is."""
    text = content.strip()
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, Mapping | list):
        text = _pairs(value, chinese) + ("。" if chinese else ".")
    elif value is None:
        text = ""
    elif text and text[-1] not in '.!?。！？:：)）]}`"”':
        text += "。" if chinese else "."
    return text if len(text) <= MAX_RESULT else text[:MAX_RESULT] + "…"


def _pairs(value: Any, chinese: bool, depth: int = 0) -> str:
    comma, semicolon, colon = ("，", "；", "：") if chinese else (", ", "; ", ": ")
    if depth < 3 and isinstance(value, Mapping):
        return comma.join(
            f"{str(key).replace('_', ' ')}{colon}{_pairs(each, chinese, depth + 1)}"
            for key, each in as_mapping(value).items()
        )
    if depth < 3 and isinstance(value, list):
        entries = as_list(value)
        named = semicolon.join(_pairs(each, chinese, depth + 1) for each in entries[:MAX_ENTRIES])
        more = len(entries) - MAX_ENTRIES
        if more > 0:
            named += f"{semicolon}另有 {more} 项" if chinese else f"; and {more} more"
        return named or ("没有结果" if chinese else "no entries")
    if value is True or value is False:
        return ("是" if value else "否") if chinese else ("yes" if value else "no")
    if value is None:
        return "无" if chinese else "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
