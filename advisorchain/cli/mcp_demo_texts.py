"""Every text of the MCP demo, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .demo_texts import Language


@dataclass(frozen=True, slots=True)
class TurnTexts:
    """One turn: its name, what it shows, and the question."""

    name: str
    shows: str
    question: str


@dataclass(frozen=True, slots=True)
class McpTexts:
    """What the demo says; ``turns`` in their order."""

    title: str
    system: str
    notice: str
    model: str
    script: str
    starting: str
    servers: str
    server: str
    state: str
    protocol: str
    trust: str
    trusted: str
    untrusted: str
    tools: str
    states: Mapping[str, str]
    note: str
    chain: str
    turns: tuple[TurnTexts, ...]
    killed: str
    you: str
    answer: str
    model_calls: str
    direct: str
    offered: str
    left_out: str
    said: str
    guidance: str
    breaker: str
    circuits: Mapping[str, str]
    failures: str
    opens_for: str
    log: str
    end: str
    closed: str
    refund: str
    activity: str
    statuses: Mapping[str, str]
    missing: str
    please_ask: str
    nothing: str


ENGLISH = McpTexts(
    title="advisorchain · four MCP servers, and one of them dies",
    system="You are the service desk of a company. Answer from the tools' results.",
    notice="Out of service at the moment: {titles}. Do what can be done without them, say what is missing, and name "
    "whom to ask: events@example.com.",
    model="model",
    script="a script plays the model, offline; the servers are real processes, spoken to over MCP",
    starting="starting four servers ...",
    servers="The servers",
    server="server",
    state="state",
    protocol="protocol",
    trust="trust",
    trusted="trusted",
    untrusted="not trusted",
    tools="tools",
    states={"connected": "connected", "failed": "failed", "lost": "lost", "idle": "idle"},
    note="note",
    chain="The chain, from the outside in",
    turns=(
        TurnTexts(
            "return direct, over the wire",
            "The travel desk is our own server, and trusted: its lookup says that it returns directly, so the result "
            "is the answer, and the model is asked once. Its other tool does not say so.",
            "What is the status of TR001?",
        ),
        TurnTexts(
            "three calls over two servers",
            "Each call takes its argument from the result before: the order that is refunded, then the activity "
            "because of which it is.",
            "I am user U7. What becomes of my refund, and why is there one?",
        ),
        TurnTexts(
            "the activity server dies",
            "It is killed, and its program is gone, so that it cannot start again. The call fails, retry tries once "
            "more, and the second failure opens the circuit. The answer says what is known, and what is missing.",
            "Once more: what becomes of my refund, and why is there one?",
        ),
        TurnTexts(
            "its tools are left out",
            "The circuit is open: the model is not offered the tools of the activity server. "
            "The other servers notice nothing.",
            "And now?",
        ),
    ),
    killed="killed: the process of the activity server",
    you="you",
    answer="answer",
    model_calls="model calls: {count}",
    direct="the result is the answer",
    offered="offered",
    left_out="left out",
    said="tool says",
    guidance="guidance",
    breaker="breaker",
    circuits={"closed": "closed", "open": "open", "half_open": "half open"},
    failures="{count} of {limit} failures in a row",
    opens_for="next probe in {seconds} s",
    log="log",
    end="The servers at the end",
    closed="All connections are closed, and with them the server processes.",
    refund="Order {order_id} ({item}, {amount} EUR): refund {refund_id} is {status}.",
    activity="The reason: activity {activity_id}, {name}, is {status} ({reason}).",
    statuses={"approved": "approved", "cancelled": "cancelled"},
    missing="The reason is missing: it is activity {activity_id}, and the activity server is not available at the "
    "moment.",
    please_ask="Please ask {contact}.",
    nothing="I found no order with a refund.",
)

CHINESE = McpTexts(
    title="advisorchain · 四个 MCP 服务器，其中一个中途失效",
    system="你是公司的服务台，请根据工具的结果回答。",
    notice="目前停用：{titles}。请完成不依赖它们的部分，说明缺少什么，并告知可以联系谁：events@example.com。",
    model="模型",
    script="离线脚本扮演模型；服务器是真实的进程，通过 MCP 通信",
    starting="正在启动四个服务器……",
    servers="服务器",
    server="服务器",
    state="状态",
    protocol="协议",
    trust="信任",
    trusted="受信任",
    untrusted="不受信任",
    tools="工具",
    states={"connected": "已连接", "failed": "失败", "lost": "已断开", "idle": "空闲"},
    note="备注",
    chain="调用链，由外到内",
    turns=(
        TurnTexts(
            "经由 MCP 的直接返回",
            "差旅服务台是我们自己的服务器，受信任：它的查询工具声明直接返回，因此结果就是回答，模型只被调用一次。"
            "它的另一个工具没有这样声明。",
            "TR001的状态是什么？",
        ),
        TurnTexts(
            "跨两个服务器的三次调用",
            "每次调用的参数都取自上一个结果：先是正在退款的订单，再是导致退款的活动。",
            "我是用户U7。我的退款怎么样了？为什么会退款？",
        ),
        TurnTexts(
            "活动服务器失效",
            "它的进程被杀死，程序也被删除，因此无法重新启动。调用失败，重试一次，第二次失败使熔断器断开。"
            "回答说明已知的部分和缺少的部分。",
            "再查一次：我的退款怎么样了？为什么会退款？",
        ),
        TurnTexts(
            "不再提供它的工具",
            "熔断器已断开：不再向模型提供活动服务器的工具。其他服务器不受影响。",
            "现在呢？",
        ),
    ),
    killed="已杀死：活动服务器的进程",
    you="用户",
    answer="回答",
    model_calls="模型调用：{count} 次",
    direct="结果就是回答",
    offered="可用工具",
    left_out="不提供",
    said="工具返回",
    guidance="附加指示",
    breaker="熔断器",
    circuits={"closed": "闭合", "open": "断开", "half_open": "半开"},
    failures="连续失败 {count} 次，上限 {limit} 次",
    opens_for="{seconds} 秒后探测",
    log="日志",
    end="结束时的服务器",
    closed="所有连接已关闭，服务器进程也随之结束。",
    refund="订单 {order_id}（{item}，{amount} 欧元）：退款 {refund_id} {status}。",
    activity="原因：活动 {activity_id}“{name}”{status}（{reason}）。",
    statuses={"approved": "已批准", "cancelled": "已取消"},
    missing="缺少原因：它与活动 {activity_id} 有关，而活动服务器目前不可用。",
    please_ask="请联系 {contact}。",
    nothing="没有找到正在退款的订单。",
)

MCP_TEXTS: dict[Language, McpTexts] = {"en": ENGLISH, "zh": CHINESE}
