"""The chain as a picture: a flowchart for Mermaid, and an SVG file that needs nothing but itself."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from advisorchain import (
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ToolInvocation,
    ToolNext,
    ToolResult,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.advisors import (
    AuditAdvisor,
    CircuitBreakerAdvisor,
    MemoryAdvisor,
    RetryAdvisor,
    ToolCacheAdvisor,
    ToolSearchAdvisor,
)
from advisorchain.audit import LoggingSink
from advisorchain.explain import AdvisorRow, ChainExplanation, ToolRow
from advisorchain.explain_names import columns
from advisorchain.memory import InMemoryStore
from advisorchain.testing import ScriptedModel

HOSTILE = [
    '</text></svg><script>alert(1)</script>',
    '"] --> evil["x',
    '%%{init: {"securityLevel": "loose"}}%%',
    "end",
    "1. one",
    "`**bold**` __b__ _i_ ~~s~~ $$x$$",
    "style a:#b; click c href",
    "a & b &lt; #quot; #35; fa:fa-bomb",
    "two\nlines\r\x1b[31m\u202e\u2028 \x00\ufffe\ud800",
    "旅行审批顾问",
    "x" * 300,
    "]]>",
    "a\\nb <br/> c",
]  # fmt: skip
LABEL = r"(?:[\w ·↻↩…,?]|#\d+;|<br/>)*"
STATEMENTS = [
    r"flowchart TB",
    r"\s+end",
    r"\s+subgraph (?:rounds|calls)\[\"each (?:round|tool call)\"\]",
    rf"\s+\w+(?:\[\"{LABEL}\"\]|\(\[\"{LABEL}\"\]\)|\{{\{{\"{LABEL}\"\}}\}}|\[\(\"{LABEL}\"\)\]|\[\[\"{LABEL}\"\]\])",
    r"\s+\w+(?: --> \w+)+",
    r"\s+\w+ -\.->\|\"[\w ,]+\"\| \w+",
    r"  classDef \w+ fill:#\w+,stroke:#\w+,color:#\w+",
    r"  class [\w,]+ \w+",
    r"  style (?:rounds|calls) fill:#\w+,stroke:#\w+",
]


@tool
async def weather(city: str) -> str:
    """The weather."""
    return city


@tool(return_direct=True)
async def travel(id: str) -> str:
    """A travel request."""
    return id


@chat_advisor(order=225, streams="hold")
async def redact(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    return await call_next(request)


@tool_advisor(order=120, name="tool_audit")
async def tool_audit(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
    return await call_next(invocation)


def client() -> ChatClient:
    advisors = [tool_audit, redact, RetryAdvisor(), CircuitBreakerAdvisor()]
    return ChatClient(ScriptedModel([], name="gpt-4o"), tools=[weather, travel], advisors=advisors)


def documented() -> ChatClient:
    """The chain in the picture of the documentation."""
    advisors = [
        AuditAdvisor(LoggingSink()), MemoryAdvisor(InMemoryStore()), redact, ToolSearchAdvisor(), ToolCacheAdvisor(),
        RetryAdvisor(), CircuitBreakerAdvisor(),
    ]  # fmt: skip
    return ChatClient(ScriptedModel([], name="gpt-4o-mini"), tools=[weather, travel], advisors=advisors)


def hostile(name: str) -> ChainExplanation:
    rows = (
        AdvisorRow(name, 1, name, "outside", "both", "hold"),
        AdvisorRow(name, 500, name, "loop", "chat", "pass"),
        AdvisorRow(name, 600, name, "inside", "both", "hold"),
    )
    return ChainExplanation(rows, name, (ToolRow(name, name, True, name),), (name,))


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def test_mermaid_shows_the_way_of_a_turn_and_of_a_tool_call() -> None:
    chart = client().explain(format="mermaid")
    assert "caller --> c1 --> loop --> r1 --> r2 --> r3 --> model" in chart
    assert "t1 --> t2 --> t3 --> tools" in chart
    assert 'model -.->|"tool calls"| t1' in chart and 'tools -.->|"results, next round"| loop' in chart
    assert 'c1["redact<br/>order 225 · holds streamed text"]' in chart
    assert 't1["tool_audit<br/>order 120"]' in chart
    assert 'tools[["weather<br/>travel ↩ direct"]]' in chart
    inside = chart.partition("subgraph rounds")[2].rpartition("\n  end")[0]
    assert 'r1["return_direct' in inside and 'c1["' not in inside
    assert "subgraph calls" in inside


def test_mermaid_without_a_loop_and_without_tools() -> None:
    alone = ChatClient(ScriptedModel([], name="m"), tool_loop=False).explain(format="mermaid")
    assert alone.splitlines()[:4] == [
        "flowchart TB", '  caller(["caller"])', '  model[("m<br/>model · 1000")]', "  caller --> model",
    ]  # fmt: skip
    assert "subgraph" not in alone
    by_hand = ChatClient(ScriptedModel([]), tools=[weather], advisors=[tool_audit], tool_loop=False)
    chart = by_hand.explain(format="mermaid")
    assert "subgraph calls" in chart and "subgraph rounds" not in chart
    assert "t1 --> tools" in chart and "-.->" not in chart, "nobody but the caller runs the tool calls"


@pytest.mark.parametrize("name", HOSTILE)
def test_mermaid_reads_no_name_as_its_own_language(name: str) -> None:
    chart = hostile(name).format("mermaid")
    for line in chart.split("\n"):
        assert any(re.fullmatch(form, line) for form in STATEMENTS), line
    first = re.search(r'c1\["(.*?)<br/>', chart)
    assert first is not None
    shown = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), first[1])
    assert not re.search(r":fa-|\$\$|\\n", shown), "found after entities are read"
    shown = shown.replace("\u2060", "")
    kept = " ".join(re.sub(r"[\x00-\x1f\u2028\u202e\ufffe\ud800]", " ", name).split())
    assert shown == (kept if len(kept) <= 60 else kept[:59] + "…")


def test_svg_shows_every_advisor_in_the_one_before_it() -> None:
    root = parsed(client().explain(format="svg"))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        [float(box.attrib[side]) for side in ("x", "y", "width", "height")]
        for box in root.iter(f"{space}rect")
        if box.attrib["class"] in ("box", "loop", "in")
    ]
    assert len(boxes) == 6
    for (x, y, width, height), (inner_x, inner_y, inner_width, inner_height) in itertools.pairwise(boxes):
        assert x < inner_x and y < inner_y
        assert inner_x + inner_width < x + width and inner_y + inner_height < y + height
    kinds = [box.attrib["class"] for box in root.iter(f"{space}rect") if box.attrib["class"] in ("box", "loop", "in")]
    assert kinds == ["box", "box", "loop", "in", "in", "in"]
    dots = [dot.attrib for dot in root.iter(f"{space}circle") if dot.attrib["r"] == "4.5"]
    assert sum("chat" in dot["class"] for dot in dots) == 5, "all but tool_audit"
    assert sum("tool" in dot["class"] for dot in dots) == 3
    texts = ["".join(text.itertext()) for text in root.iter(f"{space}text")]
    for expected in ("120", "tool_audit", "redact", "holds the text", "gpt-4o", "model · 1000", "weather", "travel ↩"):
        assert expected in texts
    assert texts.count("next round") == 1
    described = root.find(f"{space}desc")
    assert described is not None and "redact, order 225, outside the loop, wraps chat calls, holds" in described.text  # type: ignore[operator]
    assert root.attrib["role"] == "img" and root.attrib["aria-labelledby"] == "chain-title chain-desc"


def test_svg_needs_nothing_but_itself_and_is_light_or_dark() -> None:
    picture = client().explain(format="svg")
    assert "@media (prefers-color-scheme:dark)" in picture
    for outside in ("<script", "href", "url(", "@import", "<image", "<foreignObject", " on"):
        assert outside not in re.sub("<desc.*?</desc>|<title.*?</title>", "", picture), outside
    assert picture.count("http") == 1, "the name space"


@pytest.mark.parametrize("name", HOSTILE)
def test_svg_shows_hostile_names_as_text(name: str) -> None:
    picture = hostile(name).format("svg")
    root = parsed(picture)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "g", "text", "tspan", "path", "circle"}
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ufffe\ud800]", picture)
    picture.encode("ascii")
    titles = "".join(found.text or "" for found in root.iter("{http://www.w3.org/2000/svg}title"))
    assert " ".join(re.sub(r"[\x00-\x1f\u2028\u202e\ufffe\ud800]", " ", name).split()) in titles


@pytest.mark.parametrize("count", [0, 1, 14, 15, 60])
def test_svg_keeps_names_clear_of_the_lines(count: int) -> None:
    rows = [AdvisorRow("n" * 40, number, "T", "no loop", "both", "hold") for number in range(count)]
    root = parsed(ChainExplanation(tuple(rows), "m" * 50).format("svg"))
    space = "{http://www.w3.org/2000/svg}"
    lines = [
        float(line.attrib["d"][1:].split()[0]) for line in root.iter(f"{space}path") if "line" in line.attrib["class"]
    ]
    ends = [
        float(badge.attrib["x"]) + float(badge.attrib["width"])
        for badge in root.iter(f"{space}rect")
        if badge.attrib["class"] == "badge"
    ]
    assert len(ends) == count
    assert all(end + 5 < min(lines) for end in ends)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{space}rect"):
        right = float(box.attrib["x"]) + float(box.attrib["width"])
        bottom = float(box.attrib["y"]) + float(box.attrib["height"])
        assert right <= width and bottom <= height


def test_many_tools_are_counted() -> None:
    tools = tuple(ToolRow(f"tool_{number}", "t", False, "tool") for number in range(40))
    explained = ChainExplanation((), "m", tools, ("McpTools",))
    assert "and 28 more" in explained.format("mermaid") and "McpTools, asked per turn" in explained.format("mermaid")
    assert "and 35 more" in explained.format("svg") and "McpTools &#8230;" in explained.format("svg")
    shown = [line for line in explained.format("svg").splitlines() if "tool_4<" in line]
    assert shown and not any("tool_5<" in line for line in explained.format("svg").splitlines())


def test_a_name_of_several_lines_is_one_line_of_the_text() -> None:
    text = hostile("two\nlines\x1b[31m").format("text")
    assert "  ↻ two lines [31m" in text and "\x1b" not in text
    assert len(text.splitlines()) == 9


def test_columns_of_the_text_stand_below_each_other_in_any_script() -> None:
    lines = str(hostile("顾问一二三")).splitlines()[:5]
    where = ("where", "outside", "loop ", "inside", "model")
    assert {columns(line[: line.index(word)]) for line, word in zip(lines, where, strict=True)} == {21}


def test_the_picture_in_the_documentation_is_the_one_of_today() -> None:
    picture = Path(__file__).resolve().parent.parent / "docs" / "images" / "chain.svg"
    assert picture.read_text(encoding="ascii") == documented().explain(format="svg")


def test_pictures_are_loaded_when_asked_for() -> None:
    code = (
        "import sys\nfrom advisorchain import ChatClient\nfrom advisorchain.models import KeywordModel\n"
        "client = ChatClient(KeywordModel())\nclient.explain()\n"
        "assert not {'advisorchain.explain_svg', 'advisorchain.explain_mermaid'} & set(sys.modules)\n"
        "client.explain('svg')\nassert 'advisorchain.explain_svg' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
