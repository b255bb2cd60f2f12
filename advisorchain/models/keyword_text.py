"""What a text says, as far as rules can tell: its words, in English and Chinese, and its ids, numbers, dates, names."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

CJK = "\u3400-\u4dbf\u4e00-\u9fff"

_HAN = re.compile(f"[{CJK}]")
_HAN_RUN = re.compile(f"[{CJK}]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LATIN = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_FULL_WIDTH = {
    code: code - 0xFEE0
    for start, end in ((0xFF10, 0xFF1A), (0xFF21, 0xFF3B), (0xFF41, 0xFF5B))
    for code in range(start, end)
}


def words_of(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


STOP_WORDS = words_of(
    "a about all also am an and any are as at be been but by can could did do does each every find for from get "
    "give had has have he her here hi hello him his how i if in into is it its just know let like list look made "
    "make many may me more much my need no not now of on one only or our out over per please s say see she "
    "should show so some such take tell than thank thanks that the their them then there these they this those to "
    "up us use used uses using very want was we were what when where whether which who whose why will with "
    "without would yes you your"
)
_STOP_HAN = re.compile(
    "请问|帮我|帮忙|一下|查一查|看看|告诉我|怎么样|怎么|如何|多少|什么|哪里|哪个|现在|今天|明天|昨天|后天|可以|能不能|还有|以及|并且|"
    "[的了吗呢吧啊呀是在和与及请把给我你他她它们这那有想要从到去就也都并做看查让]"
)

# Everyday words of tools in both languages: a Chinese question finds a tool described in English, and the reverse.
_LEXICON = (
    ("status state", "状态 情况 进度"), ("approval approve", "审批 批准 审核"), ("request application", "申请 请求"),
    ("travel trip", "差旅 出差 旅行"), ("budget", "预算 经费"), ("analyze analysis", "分析"), ("query lookup", "查询"),
    ("weather forecast", "天气 气温 预报"), ("search", "搜索 查找 检索"), ("calculate calculator", "计算"),
    ("add sum plus", "相加 求和 加上"), ("subtract minus difference", "相减 减去"), ("multiply times", "相乘 乘以"),
    ("divide", "相除 除以"), ("order", "订单"), ("user profile", "用户 资料"), ("flight", "航班 机票"),
    ("hotel", "酒店"), ("book booking reserve", "预订 预定"), ("cancel", "取消"),
    ("time clock", "时间 几点"), ("date", "日期"),
    ("city", "城市"), ("translate", "翻译"), ("send", "发送"), ("email mail", "邮件 邮箱"), ("message", "消息"),
    ("price cost", "价格 费用"), ("stock inventory", "库存 股票"), ("customer", "客户"), ("employee", "员工"),
    ("department", "部门"), ("file document", "文件 文档"), ("create", "创建 新建"), ("delete remove", "删除"),
    ("update", "更新 修改"), ("invoice", "发票"), ("leave vacation", "请假 假期 休假"), ("balance", "余额"),
    ("exchange rate currency", "汇率 货币"), ("refund", "退款"), ("schedule calendar", "日程 日历"),
)  # fmt: skip

_SUFFIXES = (
    ("ations", 4), ("ation", 4), ("ators", 4), ("ator", 4), ("ating", 4), ("ated", 4), ("ates", 4), ("ate", 4),
    ("ysis", 4), ("yzing", 4), ("yzed", 4), ("yzes", 4), ("yze", 4), ("ysing", 4), ("ysed", 4), ("yse", 4),
    ("ings", 3), ("ing", 3), ("als", 4), ("al", 4), ("ers", 4), ("er", 4), ("ed", 3), ("es", 4), ("s", 3), ("e", 4),
    ("y", 4),
)  # fmt: skip


def is_chinese(text: str) -> bool:
    """Whether the text has Chinese characters."""
    return _HAN.search(text) is not None


def normal(text: str) -> str:
    """The text with full-width letters and digits made plain; nothing else is changed."""
    return text.translate(_FULL_WIDTH)


def stem(word: str) -> str:
    """A word without its ending, so that "approved" and "approval" are alike."""
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    for suffix, least in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= least:
            if suffix == "s" and word[-2] in "sui":
                return word
            word = word.removesuffix(suffix)
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word


def split_name(name: str) -> list[str]:
    """The words of an identifier, in lower case: ``queryTravelRequest``, ``query_travel_request``, ``query.travel``."""
    return [word.lower() for word in _LATIN.findall(_CAMEL.sub(" ", name))]


def bigrams(text: str) -> Iterator[str]:
    """The pairs of neighbouring Chinese characters, without function words."""
    for run in _HAN_RUN.findall(text):
        for piece in _STOP_HAN.split(run):
            yield from (piece[index : index + 2] for index in range(len(piece) - 1))


def terms(text: str) -> set[str]:
    """What a text is compared by: stems of its English words, pairs of its Chinese characters."""
    found = {stem(word) for word in split_name(text) if word not in STOP_WORDS}
    found.update(bigrams(text))
    return found


_CONCEPTS = tuple(
    (frozenset(stem(word) for word in english.split()), tuple(chinese.split())) for english, chinese in _LEXICON
)
_OPERATORS = {
    "+": "add sum plus",
    "*": "multiply",
    "×": "multiply",
    "/": "divide",
    "÷": "divide",
    "-": "subtract minus",
}
_OPERATION = re.compile(r"(?<![\d/-])\d+(?:\.\d+)?\s*([+*×/÷-])\s*\d+(?![\d/-])")


IMPLIED = 0.75
"""What a word counts that the user did not say, but its equivalent in the other language, or an operator."""


def terms_of_question(text: str) -> dict[str, float]:
    """The `terms` of what a user says, and with less weight the same words in the other language."""
    found = dict.fromkeys(terms(text), 1.0)
    implied: set[str] = set()
    for operator in _OPERATION.findall(text):
        implied |= terms(_OPERATORS[operator] + " calculate")
    for english, chinese in _CONCEPTS:
        if any(word in text for word in chinese):
            implied |= english
        elif not english.isdisjoint(found):
            implied.update(pair for word in chinese for pair in bigrams(word))
    return {**dict.fromkeys(implied, IMPLIED), **found}


# Clues ---------------------------------------------------------------------------------------------------------------


class Clue(NamedTuple):
    """Something in a text that may become an argument."""

    kind: str
    value: str
    start: int
    end: int


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS)
_NUMBER_WORDS = {
    word: str(n) for n, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 2)
}
_HAN_NUMBERS = {"一": "1", "两": "2", **{char: str(n) for n, char in enumerate("二三四五六七八九十", 2)}}
_RELATIVE = {"yesterday": -1, "昨天": -1, "today": 0, "今天": 0, "tomorrow": 1, "明天": 1, "后天": 2}

_NOT_BEFORE = r"(?<![A-Za-z0-9_.@-])"
_NOT_AFTER = r"(?![A-Za-z0-9])"
_RULES = (
    ("email", re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")),
    ("url", re.compile(r"https?://[^\s<>\"'，。；、“”]+")),
    ("datetime", re.compile(r"(?<!\d)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")),
    ("date", re.compile(r"(?<!\d)(\d{4})[-/年.](\d{1,2})[-/月.](\d{1,2})日?(?!\d)")),
    ("date", re.compile(rf"\b(?P<m>{_MONTH})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>\d{{4}})\b", re.I)),
    ("date", re.compile(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)? (?P<m>{_MONTH})\.?,? (?P<y>\d{{4}})\b", re.I)),
    ("relative", re.compile("|".join(rf"\b{word}\b" if word.isascii() else word for word in _RELATIVE), re.I)),
    ("time", re.compile(r"(?<!\d)([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?!\d)")),
    ("id", re.compile(rf"{_NOT_BEFORE}[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{_NOT_AFTER}")),
    ("id", re.compile(rf"{_NOT_BEFORE}[A-Za-z]{{1,12}}(?:[-_#]?\d+)(?:[-_]?[A-Za-z0-9]+){{0,4}}{_NOT_AFTER}")),
    ("number", re.compile(r"(?<![\w.])(?:(?<![^\s(,=:])-)?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d])", re.ASCII)),
    ("number", re.compile(r"(?<![\w.])(?:(?<![^\s(,=:])-)?\d+(?:\.\d+)?(?![\d])", re.ASCII)),
    ("number", re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", re.I)),
    ("number", re.compile("[一两二三四五六七八九十](?=[个天次张人位份条件晚年月周])")),
    ("quoted", re.compile(r"\"([^\"]+)\"|“([^”]+)”|「([^」]+)」|『([^』]+)』|《([^》]+)》|`([^`]+)`")),
    ("quoted", re.compile(r"(?<!\w)'([^']+)'(?!\w)")),
    ("name", re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Za-z'’-]*(?:[ ]+[A-Z][A-Za-z'’-]*)*(?![A-Za-z0-9_])")),
)  # fmt: skip
_OWN_WORDS = frozenset({"quoted", "name"})  # these may contain other clues
MAX_TEXT = 20_000
"""How many characters of a text are searched for clues."""
MAX_CLUES = 100
"""How many clues of one form are taken from a text."""


def has_id(text: str) -> bool:
    """Whether the text has something written like an id."""
    return any(kind == "id" and pattern.search(text) for kind, pattern in _RULES)


class Clues:
    """The clues of a text, each taken at most once."""

    def __init__(self, text: str, today: Callable[[], datetime.date]) -> None:
        self.text = text[:MAX_TEXT]
        self._today = today
        self._clues: list[Clue] = []
        self._taken: list[tuple[int, int]] = []
        for kind, pattern in _RULES:
            for match in islice(pattern.finditer(self.text), MAX_CLUES):
                value = self._value(kind, match)
                span = match.start(), match.end()
                if value is None or (kind not in _OWN_WORDS and self._overlaps(span)):
                    continue
                self._clues.append(Clue("date" if kind == "relative" else kind, value, *span))
        self._clues.sort(key=lambda clue: clue.start)

    def _overlaps(self, span: tuple[int, int]) -> bool:
        return any(clue.start < span[1] and span[0] < clue.end for clue in self._clues)

    def _value(self, kind: str, match: re.Match[str]) -> str | None:
        text = match[0]
        if kind == "date":
            return _date(match)
        if kind == "relative":
            return (self._today() + datetime.timedelta(_RELATIVE[text.lower()])).isoformat()
        if kind == "datetime":
            return text.replace(" ", "T", 1)
        if kind == "time":
            return f"{int(match[1]):02}:{match[2]}"
        if kind == "number":
            return _NUMBER_WORDS.get(text.lower()) or _HAN_NUMBERS.get(text) or text.replace(",", "")
        if kind == "quoted":
            return next(group for group in match.groups() if group)
        if kind == "url":
            return text.rstrip(".,;:!?)")
        return self._proper_name(match) if kind == "name" else text

    def _proper_name(self, match: re.Match[str]) -> str | None:
        """Capitalised words without the ordinary words that only begin a sentence."""
        words = match[0].split()
        while words and (words[0].lower().removesuffix("'s") in STOP_WORDS or words[0].lower() in _BEGINNINGS):
            del words[0]
        return " ".join(words).removesuffix("'s").removesuffix("’s") or None

    def find(self, kind: str, accept: Callable[[Clue], bool] = lambda clue: True) -> Clue | None:
        """The first clue of a kind that is not taken."""
        for clue in self._clues:
            if clue.kind == kind and not self.is_taken(clue.start, clue.end) and accept(clue):
                return clue
        return None

    def take(self, kind: str, accept: Callable[[Clue], bool] = lambda clue: True) -> str | None:
        """The value of the first such clue, which is taken from now on."""
        clue = self.find(kind, accept)
        if clue is None:
            return None
        self.mark(clue.start, clue.end)
        return clue.value

    def has(self, kind: str) -> bool:
        """Whether the text has a clue of a kind, taken or not."""
        return any(clue.kind == kind for clue in self._clues)

    def mark(self, start: int, end: int) -> None:
        """Take a piece of the text, and every clue in it."""
        self._taken.append((start, end))

    def is_taken(self, start: int, end: int) -> bool:
        """Whether a piece of the text is used already."""
        return any(a < end and start < b for a, b in self._taken)

    def rest(self, known: set[str]) -> list[tuple[str, int]]:
        """What is left of Chinese text without function words, everyday tool words and the tool's own (``known``).

        Returns:
            Each piece and where it starts.
        """
        left = list(self.text)
        for start, end in self._taken:
            left[start:end] = "\n" * (end - start)
        own = "|".join(sorted(pair for pair in known if len(pair) == 2 and is_chinese(pair)))
        for pattern in filter(None, (_EVERYDAY.pattern, own, _STOP_HAN.pattern)):
            for match in list(re.finditer(pattern, "".join(left))):
                left[match.start() : match.end()] = "\n" * len(match[0])
        return [(run[0], run.start()) for run in _HAN_RUN.finditer("".join(left)) if len(run[0]) > 1]

    def continues(self, known: set[str]) -> bool:
        """Whether the text goes on with another id, or lists another name: "in Paris and in Rome"."""
        if self.find("id") is not None:
            return True
        starts = [clue.start for clue in self._clues if clue.kind == "name" and not self.is_taken(*clue[2:])]
        starts += [start for _, start in self.rest(known)]
        return any(_LISTED.search(self.text[:start]) for start in starts)


_LISTED = re.compile(r"(?:[,、]|\b(?:and|or)\b|[和与及])\s*(?:\b(?:in|for|at|of|from|to)\s+)?$", re.I)
_EVERYDAY = re.compile("|".join(word for _, chinese in _LEXICON for word in chinese.split()))
_BEGINNINGS = words_of(
    "add analyze analyse book calculate call cancel check compare compute convert create current delete describe "
    "display explain fetch how's multiply open print query read remove run search send sum summarize translate "
    "update what's when's where's who's write divide subtract status weather"
)


def _date(match: re.Match[str]) -> str | None:
    named = match.groupdict()
    try:
        if named:
            month = next(n for n, name in enumerate(_MONTHS, 1) if name.startswith(named["m"].lower()[:3]))
            return datetime.date(int(named["y"]), month, int(named["d"])).isoformat()
        return datetime.date(int(match[1]), int(match[2]), int(match[3])).isoformat()
    except ValueError:
        return None
