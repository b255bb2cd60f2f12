"""The page of a trace in a real browser: hostile content, its policy, long texts, deep trees, ten thousand spans."""

from __future__ import annotations

import json
import re
import statistics
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from chromium import Tab
from made_traces import many_spans, travel_turn, write_sdk_file
from playwright.sync_api import Browser, Error

from advisorchain.cli.trace_page import embedded, trace_page, write_trace_page
from advisorchain.cli.trace_spans import TraceEvent, TraceSpan, read_spans, span_of

from .conftest import ShowPage

HOSTILE = (
    "</script><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "<!--<script>",
    "]]></title><svg onload=window.ran=1>",
    "javascript:window.ran=1",
    "&lt;b&gt;&amp;",
    "${window.ran = 1}",
    "{{7*7}}",
    "a\u2028b\u2029c",
    "half \ud800 pair \udfff",
    "nul \x00 bell \x07 esc \x1b[31m del \x7f",
    "bidi \u202eevil\u202c \u2066x\u2069 zero\u200bwidth \U000e0041tag",
    "مرحبا שלום 你好 👩‍👩‍👧",
    "__proto__",
    "constructor",
    "line\nline\r\nline\ttab",
)


def test_hostile_content_is_text(show: ShowPage) -> None:
    spans = []
    for index, text in enumerate(HOSTILE):
        message = json.dumps(
            [{"role": text, "parts": [{"type": "text", "content": text}, {"type": text, text: text}, text]}]
        )
        calls = json.dumps(
            [{"role": "assistant", "parts": [{"type": "tool_call", "id": text, "name": text, "arguments": text}]}]
        )
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent" if index == 0 else text,
            "gen_ai.agent.name": text,
            "gen_ai.input.messages": message,
            "gen_ai.output.messages": calls,
            "gen_ai.system_instructions": text,
            "gen_ai.tool.call.result": text,
            "gen_ai.usage.input_tokens": text,
            "error.type": text,
            "advisorchain.stop_reason": text,
            "advisorchain.round": text if index % 2 else None,
            text: {text: [text, {text: text}]},
            "big": 2**63,
            "nan": float("nan"),
        }
        if index % 3 == 2:
            attributes |= {
                "advisorchain.advisor.name": text,
                "advisorchain.advisor.order": text,
                "advisorchain.advisor.outcome": text,
                "advisorchain.tool_loop": text,
            }
        events = (TraceEvent(text, index, {text: text}), TraceEvent("advisorchain.retry", -5, attributes))
        parent = str(index // 2) if index else None
        spans.append(
            TraceSpan(
                f"t{HOSTILE[0]}",
                str(index),
                parent,
                text,
                "client",
                index,
                10**18,
                "error",
                text,
                attributes,
                events,
                text,
            )
        )
    page = show(spans, title="".join(HOSTILE))
    page.keyboard.press("Home")
    for index in range(int(page.locator("#tree").get_attribute("aria-rowcount") or 0)):
        page.keyboard.press("ArrowDown" if index else "Enter")
        heading = page.locator("#details h2").inner_text()
        assert heading == page.locator(".row.selected .label").inner_text()
    everything = page.evaluate(
        "document.body.innerText + [...document.querySelectorAll('.label')].map((e) => e.textContent)"
    )
    assert HOSTILE[0] in everything
    assert HOSTILE[1] in everything
    assert "nul ␀ bell ␇ esc ␛[31m del ‹U+7F›".replace("U+7F", "U+007F") in everything
    assert "bidi ‹U+202E›evil‹U+202C›" in everything and "zero‹U+200B›width ‹U+E0041›tag" in everything
    assert "half ‹U+D800› pair ‹U+DFFF›" in everything
    assert "a‹U+2028›b‹U+2029›c" in everything
    assert "مرحبا שלום 你好 👩‍👩‍👧" in everything
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2028\u2029]", everything)
    assert page.evaluate("window.ran") is None
    assert page.evaluate("Object.keys(Object.prototype).length + Object.keys(({}).constructor).length") == 0
    tags = page.evaluate("[...new Set([...document.body.querySelectorAll('*')].map((e) => e.localName))]")
    assert not {"img", "iframe", "a", "object", "b", "embed", "link"} & set(tags)
    assert page.locator("script").count() == 2
    assert page.locator("[onload], [onerror], [style*=url]").count() == 0


NAMES_THAT_THE_PAGE_READS = (
    "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.tool.name", "gen_ai.usage.input_tokens", "error.type",
    "gen_ai.input.messages", "advisorchain.advisor.name", "advisorchain.advisor.order", "advisorchain.advisor.type",
    "advisorchain.advisor.outcome", "advisorchain.stop_reason", "advisorchain.round", "advisorchain.rounds",
)  # fmt: skip


def test_an_object_that_plays_javascript_is_text(show: ShowPage) -> None:
    """``toString`` of an attribute's value is data: a page that calls it shows nothing at all."""
    spans = []
    for name in NAMES_THAT_THE_PAGE_READS:
        value = {"toString": name, "valueOf": 1}
        for index, operation in enumerate(("invoke_agent", "chat", "execute_tool", "", "")):
            about: dict[str, Any] = {"gen_ai.operation.name": operation, "advisorchain.round": 1}
            if not operation:
                about["advisorchain.advisor.name"] = f"advisor {index}"
            about[name] = value
            parent = "0" if index else None
            if parent is None:
                del about["advisorchain.round"]
            events = (TraceEvent("event", 5, {name: value}),)
            spans.append(
                TraceSpan(name, str(index), parent, operation, "internal", index, 9, "error", "", about, events)
            )
    page = show(spans)
    entries = page.locator("#entries [role=option]")
    assert entries.count() == len(NAMES_THAT_THE_PAGE_READS)
    for index, name in enumerate(NAMES_THAT_THE_PAGE_READS):
        entries.nth(index).click()
        page.locator("#tree").focus()
        for _ in range(page.locator(".row").count()):
            page.keyboard.press("Enter")
            page.keyboard.press("ArrowDown")
        assert page.locator(".row").count() >= 6 and name in page.locator("#details").inner_text()


@pytest.mark.parametrize("size", [(1400, 900), (420, 800)])
def test_a_name_deep_inside_is_seen_and_so_is_every_time(show: ShowPage, size: tuple[int, int]) -> None:
    def nested(depth: int) -> TraceSpan:
        parent = str(depth - 1) if depth else None
        return TraceSpan("t", str(depth), parent, f"advisor number_{depth}", "internal", depth, 2 * 10**9)

    page = show([nested(depth) for depth in range(60)])
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    widths = page.evaluate(
        "[...document.querySelectorAll('.row')].map((row) => {"
        " const [name, label] = ['.cell-name', '.label'].map((at) => row.querySelector(at).getBoundingClientRect());"
        " return Math.min(label.right, name.right) - label.left; })"
    )
    assert len(widths) > 10 and min(widths) > 60
    beyond = "(tick) => tick.getBoundingClientRect().right > tick.parentElement.getBoundingClientRect().right + 1"
    assert page.locator(".tick").count() > 0
    assert page.evaluate(f"[...document.querySelectorAll('.tick')].filter({beyond}).length") == 0


def test_long_texts_are_shown_on_demand(show: ShowPage) -> None:
    long = "word " * 200_000 + "END"
    spans = [TraceSpan("t", "1", None, long, "internal", 0, 5, attributes={"text": long, "short": "x"})]
    page = show(spans)
    assert len(page.locator(".label").inner_text()) < 400
    page.locator(".row").click()
    assert "END" not in page.locator("#details").inner_text()
    button = page.get_by_role("button", name="Show all 1,000,003 characters")
    took = button.evaluate(
        """(button) => {
        const begin = performance.now();
        button.click();
        document.body.offsetHeight;  // laid out
        return performance.now() - begin;
        }"""
    )
    assert took < 2_000  # in one piece it is seconds
    text = page.locator("#details dd pre").nth(1).text_content()
    assert text == long


def test_one_row_of_a_million_children_deep_or_wide(show: ShowPage) -> None:
    deep = [
        TraceSpan("t", str(each), str(each - 1) if each else None, "deep", "internal", each, 5_000)
        for each in range(3_000)
    ]
    wide = [TraceSpan("u", str(each), "0" if each else None, "wide", "internal", each, 5_000) for each in range(3_000)]
    page = show([*deep, *wide])
    page.keyboard.press("End")
    assert page.locator(".row.selected").get_attribute("aria-level") == "3000"
    assert page.locator(".row.selected .label").bounding_box()["width"] > 20  # type: ignore[index]
    page.locator(".entry").nth(1).click()
    assert page.locator("#tree").get_attribute("aria-rowcount") == "3000"


def test_the_policy_forbids_scripts_requests_and_markup(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_trace_page([span_of(span) for span in travel_turn()], path, "t")
    tab = Tab(browser, path)
    with pytest.raises(Error, match="TrustedHTML"):
        tab.page.evaluate("document.body.innerHTML = '<b>x</b>'")
    with pytest.raises(Error, match="Failed to fetch"):
        tab.page.evaluate("fetch('https://example.org/')")
    tab.page.evaluate(
        """() => { const image = new Image(); image.src = 'https://example.org/x.png'; document.body.append(image);
        const style = document.createElement('style'); style.textContent = 'body { display: none }';
        document.head.append(style); }"""
    )
    with pytest.raises(Error, match="TrustedScript"):
        tab.page.evaluate(
            "() => { const made = document.createElement('script'); made.textContent = 'window.ran = 1'; }"
        )
    assert tab.page.evaluate("[window.ran, getComputedStyle(document.body).display]") == [None, "flex"]
    assert set(tab.requests) <= {path.as_uri(), "https://example.org/x.png"}
    assert tab.blocked == ["https://example.org/x.png"]
    tab.context.close()


@pytest.mark.slow
def test_ten_thousand_spans_stay_fluid(show: ShowPage, tmp_path: Path) -> None:
    spans = read_spans(write_sdk_file(tmp_path / "many.jsonl", many_spans()))
    page = show(spans)
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert page.locator(".row").count() < 80
    frames = page.evaluate(
        """async () => {
        const tree = document.getElementById("tree"), frames = [];
        for (let step = 0; step < 40; step += 1) {
          const begin = performance.now();
          tree.scrollTop += 2777;
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          frames.push((performance.now() - begin) / 2);
        }
        return frames;
        }"""
    )
    begin = page.evaluate("performance.now()")
    page.locator("#search").fill("tool_7")
    searched = page.evaluate("performance.now()") - begin
    frame = statistics.quantiles(frames)[0]  # the others, on a busy machine, waited for their turn
    print(f"loaded {loaded:.0f} ms, a scroll frame {frame:.1f} ms, filtered {searched:.0f} ms")
    assert page.locator("#found").inner_text() == "999"
    # Ten times what it takes on a slow machine: what is found here is work that grows with the number of spans.
    assert loaded < 5_000
    assert frame < 100
    assert searched < 3_000


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.found[self._inside] = self.found.get(self._inside, "") + data


def test_the_data_cannot_end_its_element() -> None:
    spans = [TraceSpan("t", "1", None, "".join(HOSTILE), "internal", 0, 1, attributes={name: name for name in HOSTILE})]
    text = trace_page(spans, "".join(HOSTILE))
    assert "<script>window.ran" not in text
    parser = _Texts()
    parser.feed(text)
    data = json.loads(parser.found["data"])
    assert data["entries"][0]["spans"][0][1] == "".join(HOSTILE)
    assert [name for name, _ in data["entries"][0]["spans"][0][9]] == list(HOSTILE)
    assert embedded("</script>\u2028\ud800&") == '"\\u003c/script\\u003e\\u2028\\ud800\\u0026"'
    assert text.encode("utf-8")
    assert not re.search(r"https?://|//cdn|@import|url\(", re.sub(r'<script id="data".*?</script>', "", text))


def test_numbers_that_a_browser_has_not() -> None:
    big = {
        "int": 2**53 + 1,
        "nan": float("nan"),
        "inf": [float("-inf"), {"deep": -(2**60)}],
        "fine": 2**53,
        "yes": True,
    }
    text = trace_page([TraceSpan("t", "1", None, "n", "internal", 0, 1, attributes=big)], "t")
    parser = _Texts()
    parser.feed(text)
    pairs = dict(json.loads(parser.found["data"])["entries"][0]["spans"][0][9])
    assert pairs == {
        "int": "9007199254740993",
        "nan": "nan",
        "inf": ["-inf", {"deep": "-1152921504606846976"}],
        "fine": 2**53,
        "yes": True,
    }
