"""Every text of the demo of tool search, in English and in Chinese."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .demo_texts import CHINESE, ENGLISH, Language
from .travel_desk import TravelDesk, TravelDeskInChinese


@dataclass(frozen=True, slots=True)
class SearchTexts:
    """What the demo says."""

    title: str
    desk: type[Any]
    system: str
    guidance: str
    question: str
    model: str
    stand_in: str
    chain: str
    plain: str
    plain_shows: str
    searched: str
    searched_shows: str
    you: str
    answer: str
    result: str
    added: str
    call: str
    shown: str
    tokens: str
    search: str
    calls: str
    side_by_side: str
    total: str
    saved: str
    nothing: str
    more: str
    counted: str
    estimated: str


IN_ENGLISH = SearchTexts(
    title="advisorchain · the travel desk hidden among {count} tools",
    desk=TravelDesk,
    system=ENGLISH.system,
    guidance=(
        "Only some of your tools are shown; when none of them does what you need, find the right one with tool_search "
        "first."
    ),
    question="Show the status of TR002 and analyze the travel budget.",
    model="model",
    stand_in="an offline, rule-based stand-in: no key, no download; it searches with the user's words",
    chain="The chain, from the outside in",
    plain="without tool search",
    plain_shows="The model reads all {count} tools in every model call.",
    searched="with tool search",
    searched_shows="The model reads one tool, searches, and from then on also reads what it has found.",
    you="you",
    answer="answer",
    result="found",
    added="shown",
    call="model call",
    shown="tools",
    tokens="input tokens",
    search="search",
    calls="tool calls: {count}",
    side_by_side="Side by side",
    total="together",
    saved="Tool search has saved {percent} % of the input tokens, its own model call included.",
    nothing="Tool search has saved no input tokens here: {percent} %.",
    more="({count} in all)",
    counted="Input tokens as the model reported them in this run.",
    estimated="The stand-in estimates tokens: characters / 4.",
)

IN_CHINESE = SearchTexts(
    title="advisorchain · 差旅服务台藏在 {count} 个工具之中",
    desk=TravelDeskInChinese,
    system=CHINESE.system,
    guidance="这里只显示了一部分工具；如果没有合适的，请先用 tool_search 查找。",
    question="查询TR002的审批状态，并分析差旅预算。",
    model="模型",
    stand_in="离线的规则替身：无需密钥，无需下载；它用用户的原话搜索",
    chain="调用链，由外到内",
    plain="不用工具搜索",
    plain_shows="每次模型调用都要读完全部 {count} 个工具。",
    searched="使用工具搜索",
    searched_shows="模型先只读一个工具，搜索之后再读搜到的工具。",
    you="用户",
    answer="回答",
    result="搜到",
    added="显示",
    call="模型调用",
    shown="工具",
    tokens="输入词元",
    search="搜索",
    calls="工具调用：{count}",
    side_by_side="并排对比",
    total="合计",
    saved="工具搜索节省了 {percent} % 的输入词元，已计入搜索本身的模型调用。",
    nothing="这里工具搜索没有节省输入词元：{percent} %。",
    more="（共 {count} 个）",
    counted="输入词元为模型在本次运行中报告的数值。",
    estimated="替身的词元数为估算：字符数 / 4。",
)

SEARCH_TEXTS: dict[Language, SearchTexts] = {"en": IN_ENGLISH, "zh": IN_CHINESE}
