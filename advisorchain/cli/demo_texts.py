"""Every text of the demo, in English and in Chinese."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .travel_desk import TravelDesk, TravelDeskInChinese

Language = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class RunTexts:
    """One run: its name, what it shows, and the question."""

    name: str
    shows: str
    question: str


@dataclass(frozen=True, slots=True)
class DemoTexts:
    """What the demo says."""

    title: str
    tools: type[Any]
    system: str
    model: str
    stand_in: str
    chain: str
    direct: RunTexts
    summarised: RunTexts
    streamed: RunTexts
    you: str
    answer: str
    start: str
    took: str
    tokens: str
    what: str
    model_call: str
    is_direct: str
    failed: str
    first_text: str
    compared: str
    run: str
    model_calls: str
    tool_calls: str
    time: str
    measured: str
    estimated: str


ENGLISH = DemoTexts(
    title="advisorchain · the travel desk",
    tools=TravelDesk,
    system="You are the travel desk of a company. Answer from the tools' results.",
    model="model",
    stand_in="an offline, rule-based stand-in: no key, no download",
    chain="The chain, from the outside in",
    direct=RunTexts(
        "direct",
        "The tool returns directly: its result is the answer, and the model is asked once.",
        "What is the approval status of TR001?",
    ),
    summarised=RunTexts(
        "summarised",
        "The same question with return_direct overridden: the model sees the result and answers.",
        "What is the approval status of TR001?",
    ),
    streamed=RunTexts(
        "streamed",
        "Two tools at once, one of them direct: the model puts both results together, streamed.",
        "Show the status of TR002 and analyze the travel budget.",
    ),
    you="you",
    answer="answer",
    start="start",
    took="took",
    tokens="tokens",
    what="what happened",
    model_call="model call {number}",
    is_direct="direct",
    failed="failed",
    first_text="first text after {first}, {count} pieces",
    compared="The three runs",
    run="run",
    model_calls="model calls",
    tool_calls="tool calls",
    time="time",
    measured="Everything above was measured in this run; tokens are input + output.",
    estimated="The keyword model estimates tokens: characters / 4.",
)

CHINESE = DemoTexts(
    title="advisorchain · 差旅服务台",
    tools=TravelDeskInChinese,
    system="你是公司的差旅服务台，请根据工具的结果回答。",
    model="模型",
    stand_in="离线的规则替身：无需密钥，无需下载",
    chain="调用链，由外到内",
    direct=RunTexts("直接返回", "工具直接返回：结果就是回答，只调用一次模型。", "TR001的审批状态是什么？"),
    summarised=RunTexts("模型总结", "同一个问题，关闭直接返回：模型读到结果后再回答。", "TR001的审批状态是什么？"),
    streamed=RunTexts(
        "流式输出", "同时调用两个工具，其中一个直接返回：模型合并两个结果，流式输出。",
        "查询TR002的状态，并分析差旅预算。",
    ),
    you="用户",
    answer="回答",
    start="开始",
    took="用时",
    tokens="词元",
    what="发生了什么",
    model_call="第 {number} 次模型调用",
    is_direct="直接返回",
    failed="失败",
    first_text="{first} 后出现首段文字，共 {count} 段",
    compared="三次运行对比",
    run="运行",
    model_calls="模型调用",
    tool_calls="工具调用",
    time="总用时",
    measured="以上数据均在本次运行中实测；词元为输入 + 输出。",
    estimated="keyword 模型的词元数为估算：字符数 / 4。",
)  # fmt: skip

TEXTS: dict[Language, DemoTexts] = {"en": ENGLISH, "zh": CHINESE}
