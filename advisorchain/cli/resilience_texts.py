"""Every text of the demo of a failing service, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .demo_texts import Language
from .travel_desk import IN_CHINESE, TravelDesk, TravelDeskInChinese


@dataclass(frozen=True, slots=True)
class StageTexts:
    """One turn: its name, what it shows, and the question."""

    name: str
    shows: str
    question: str


@dataclass(frozen=True, slots=True)
class ResilienceTexts:
    """What the demo says; ``stages`` in their order."""

    title: str
    desk: type[Any]
    departments: Mapping[str, str]
    service: str
    system: str
    notice: str
    missing: str
    please_ask: str
    model: str
    script: str
    chain: str
    stages: tuple[StageTexts, ...]
    you: str
    answer: str
    took: str
    what: str
    outcome: str
    model_call: str
    attempt: str
    calls: str
    answers: str
    result: str
    offered: str
    added: str
    nothing: str
    breaker: str
    states: Mapping[str, str]
    failures: str
    opens_for: str
    reached: str
    audit: str
    attempts: str
    tries: str
    log: str
    memory: str
    audit_file: str
    intact: str
    broken: str
    record: str
    turn: str
    look: str
    files: str


ENGLISH = ResilienceTexts(
    title="advisorchain · the travel desk while its budget service fails",
    desk=TravelDesk,
    departments={name: name for name in IN_CHINESE},
    service="Budget service",
    system="You are the travel desk of a company. Answer from the tools' results.",
    notice="Out of service at the moment: {titles}. Do what can be done without it, say what is missing, and name "
    "whom to ask: budget@example.com.",
    missing="The budget is missing: the budget service is not available at the moment.",
    please_ask="Please ask {contact}.",
    model="model",
    script="a script plays the model, offline; what is around it is real",
    chain="The chain, from the outside in",
    stages=(
        StageTexts(
            "the budget service works",
            "Both tools answer.",
            "What about TR001, and what is the travel budget of engineering?",
        ),
        StageTexts(
            "it fails",
            "It refuses connections. Retry tries twice; then fallback puts the failure into words, and asks the model "
            "for a partial answer that says whom to ask.",
            "And TR002, with the budget of sales?",
        ),
        StageTexts(
            "it hangs",
            "It takes calls and never answers. The tool's timeout of {timeout} ms ends the attempt, the third failure "
            "in a row opens the circuit, and the second attempt is refused.",
            "And TR003, with the budget of marketing?",
        ),
        StageTexts(
            "it is left alone",
            "The circuit is open: the tool is left out of the request, and nobody waits for it.",
            "Once more TR002, with the budget of sales.",
        ),
        StageTexts(
            "it recovers",
            "The service works again, and {seconds} s later (the breaker's clock was turned forward) the tool is "
            "offered again: one call, the probe, closes the circuit.",
            "And now? TR002, with the budget of sales.",
        ),
    ),
    you="you",
    answer="answer",
    took="took",
    what="what happened",
    outcome="how it ended",
    model_call="model call {number}",
    attempt="{tool} · attempt {number}",
    calls="tool calls: {count}",
    answers="answer",
    result="tool says",
    offered="offered",
    added="guidance",
    nothing="none",
    breaker="breaker",
    states={"closed": "closed", "open": "open", "half_open": "half open"},
    failures="{count} of {limit} failures in a row",
    opens_for="next probe in {seconds} s",
    reached="calls that have reached the service: {count}",
    audit="audit",
    attempts="attempts: {count}",
    tries="tries",
    log="log",
    memory="The conversation as it is stored",
    audit_file="The audit",
    intact="intact: records {first} to {last}, every hash follows from the one before",
    broken="NOT intact: {message}",
    record="#",
    turn="turn {number}",
    look="Look for yourself",
    files="The files are in {directory}",
)

CHINESE = ResilienceTexts(
    title="advisorchain · 预算服务故障时的差旅服务台",
    desk=TravelDeskInChinese,
    departments=IN_CHINESE,
    service="预算服务",
    system="你是公司的差旅服务台，请根据工具的结果回答。",
    notice="目前停用：{titles}。请完成不依赖它的部分，说明缺少什么，并告知可以联系谁：budget@example.com。",
    missing="缺少预算：预算服务目前不可用。",
    please_ask="请联系 {contact}。",
    model="模型",
    script="离线脚本扮演模型；它周围的一切都是真实的",
    chain="调用链，由外到内",
    stages=(
        StageTexts("预算服务正常", "两个工具都返回结果。", "TR001怎么样了？工程部的差旅预算是多少？"),
        StageTexts(
            "服务出错",
            "服务拒绝连接。重试共尝试两次；随后降级把失败写成文字，并请模型给出部分回答，同时说明可以联系谁。",
            "TR002呢？还有销售部的预算。",
        ),
        StageTexts(
            "服务卡住",
            "服务接受调用但从不返回。工具超时（{timeout} 毫秒）结束这次尝试，"
            "连续第三次失败使熔断器断开，第二次尝试被拒绝。",
            "TR003呢？还有市场部的预算。",
        ),
        StageTexts(
            "暂停调用", "熔断器已断开：请求中不再提供这个工具，没有人为它等待。", "再查一次TR002和销售部的预算。"
        ),
        StageTexts(
            "服务恢复",
            "服务恢复正常；{seconds} 秒之后（熔断器的时钟被拨快）重新提供这个工具：一次探测调用使熔断器闭合。",
            "现在呢？TR002和销售部的预算。",
        ),
    ),
    you="用户",
    answer="回答",
    took="用时",
    what="发生了什么",
    outcome="结果",
    model_call="第 {number} 次模型调用",
    attempt="{tool} · 第 {number} 次尝试",
    calls="工具调用：{count} 个",
    answers="回答",
    result="工具返回",
    offered="可用工具",
    added="附加指示",
    nothing="无",
    breaker="熔断器",
    states={"closed": "闭合", "open": "断开", "half_open": "半开"},
    failures="连续失败 {count} 次，上限 {limit} 次",
    opens_for="{seconds} 秒后探测",
    reached="到达服务的调用：{count} 次",
    audit="审计",
    attempts="尝试：{count} 次",
    tries="尝试",
    log="日志",
    memory="存储的对话",
    audit_file="审计记录",
    intact="完好：第 {first} 至 {last} 条记录，每个哈希都与前一条相接",
    broken="不完好：{message}",
    record="序号",
    turn="第 {number} 轮",
    look="自己查看",
    files="文件保存在 {directory}",
)

RESILIENCE_TEXTS: dict[Language, ResilienceTexts] = {"en": ENGLISH, "zh": CHINESE}
