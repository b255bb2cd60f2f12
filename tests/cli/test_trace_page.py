"""The page of a trace in a real browser: what it shows, keys, colours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from made_traces import ANSWER, QUESTION, said, travel_turn
from playwright.sync_api import Page, expect

from advisorchain.cli.trace_page import count_turns
from advisorchain.cli.trace_spans import TraceSpan, span_of

from .conftest import ShowPage

CONTRASTS = (Path(__file__).parents[1] / "support" / "contrast.js").read_text(encoding="utf-8")


def names(page: Page) -> list[str]:
    return page.locator(".row .label").all_inner_texts()


def row(page: Page, name: str) -> Any:
    return page.locator(".row", has=page.locator(".label", has_text=re.compile(f"^{re.escape(name)}$"))).first


def selected(page: Page) -> str:
    found = page.locator(".row[aria-selected=true]")
    expect(found).to_have_count(1)
    assert page.locator("#tree").get_attribute("aria-activedescendant") == found.get_attribute("id")
    return found.locator(".label").inner_text()


def keys(page: Page, *pressed: str) -> None:
    for key in pressed:
        page.keyboard.press(key)


def spans_of_turn(**changes: Any) -> list[TraceSpan]:
    return [span_of(span) for span in travel_turn(**changes)]


def test_what_the_turn_shows(show: ShowPage) -> None:
    page = show(viewport={"width": 1400, "height": 1500})
    assert page.title() == "sample.jsonl"
    assert page.locator("h1").inner_text() == "travel desk"
    figures = page.locator("#figures").inner_text()
    for figure in ("2 rounds", "4 model calls", "3 tool calls", "3390 → 162 tokens", "38 spans", "return direct"):
        assert figure in figures
    shown = names(page)
    assert shown[:6] == [
        "invoke_agent travel desk",
        "advisor audit",
        "advisor memory",
        "advisor deadline",
        "search_memory",
        "advisor tool_calling",
    ]
    assert [name for name in shown if name.startswith("Round")] == ["Round 1", "Round 2", "Round 1", "Round 3"]
    assert "POST" in shown
    assert row(page, "invoke_agent travel desk").locator(".cell-tokens").inner_text() == "3390 → 162"
    assert row(page, "chat gpt-4o-mini").locator(".cell-tokens").inner_text() == "812 → 46"
    assert row(page, "chat gpt-4o-mini").locator(".cell-time").inner_text() == "310 ms"
    assert row(page, "execute_tool weather").locator(".badge.error").inner_text() == "✕ ToolTimeoutError"
    assert page.locator(".badge.short", has_text="short-circuit").count() == 1
    assert page.locator(".row .badge.retry").all_inner_texts() == ["⟳ 1", "⟳ 1"]
    assert page.locator(".mark.retry").count() == 4
    assert page.locator("#chooser").is_hidden()


def test_the_onion(show: ShowPage) -> None:
    page = show()
    rings = page.locator("#onion .ring > .ring-head .ring-name").all_inner_texts()
    assert rings == [
        "travel desk",
        *("audit", "memory", "deadline", "tool_calling", "tool_search", "return_direct", "retry", "budget"),
        *("tool_cache", "retry"),
    ]
    assert page.locator(".ring.loop > .ring-head").inner_text().split() == ["tool_calling", "↻", "3", "500"]
    inside = page.locator(".ring.loop").inner_text()
    assert "audit" not in inside
    assert "tool_search" in inside
    assert page.locator(".core.chat .ring-name").all_inner_texts() == ["gpt-4o-mini"]
    assert page.locator(".core.tool .ring-name").all_inner_texts() == ["train_status", "weather", "research"]
    page.locator(".ring-head", has_text="return_direct").click()
    assert selected(page) == "advisor return_direct"
    first = page.locator(".row.selected").get_attribute("aria-rowindex")
    page.locator(".ring-head", has_text="return_direct").click()
    assert page.locator(".row.selected").get_attribute("aria-rowindex") != first
    # a sub-agent has an onion of its own
    page.locator("#search").fill("claude")
    row(page, "chat claude-haiku-4-5").click()
    assert page.locator("#onion .ring.agent > .ring-head").inner_text() == "researcher"


def test_details_and_content(show: ShowPage) -> None:
    page = show()
    row(page, "chat gpt-4o-mini").click()
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "chat gpt-4o-mini"
    assert details.locator(".message .role").all_inner_texts() == ["system", "user", "assistant · tool_call"]
    assert details.locator(".message.user .said").inner_text() == QUESTION
    assert '"train": "TR001"' in details.locator(".message.assistant").inner_text()
    pairs = dict(zip(details.locator("dt").all_inner_texts(), details.locator("dd").all_inner_texts(), strict=True))
    assert pairs["server.port"] == "443"
    assert pairs["gen_ai.response.finish_reasons"] == "stop"
    assert pairs["span id"] and pairs["made by"] == "advisorchain"
    page.locator("#search").fill("retry")
    page.locator(".row", has=page.locator(".badge.retry")).last.click()
    events = details.locator(".event").all_inner_texts()
    assert len(events) == 2
    assert "advisorchain.call_next.previous" in events[1]
    page.locator("#search").fill("weather")
    row(page, "execute_tool weather").click()
    assert details.locator(".error-text").inner_text() == "weather did not return within 0.1 s"
    page.locator("#search").fill("invoke_agent travel")
    row(page, "invoke_agent travel desk").click()
    assert details.locator(".message.assistant .said").inner_text() == ANSWER
    details.get_by_label("Close the details").click()
    assert details.is_hidden()


def test_keys(show: ShowPage) -> None:
    page = show()
    expect(page.locator("#tree")).to_be_focused()
    assert selected(page) == "invoke_agent travel desk"
    keys(page, "ArrowDown", "ArrowDown")
    assert selected(page) == "advisor memory"
    keys(page, "ArrowUp")
    assert selected(page) == "advisor audit"
    keys(page, "ArrowLeft")
    assert names(page) == ["invoke_agent travel desk", "advisor audit"]
    assert page.locator(".row.selected").get_attribute("aria-expanded") == "false"
    keys(page, "ArrowRight", "ArrowRight")
    assert selected(page) == "advisor memory"
    keys(page, "ArrowLeft", "ArrowLeft")
    assert selected(page) == "advisor audit"
    keys(page, "ArrowDown", "ArrowRight", "Home", "End")
    assert selected(page) == "advisor return_direct"
    keys(page, "PageUp", "Home")
    assert selected(page) == "invoke_agent travel desk"
    keys(page, "Enter")
    assert page.locator("#details h2").inner_text() == "invoke_agent travel desk"
    keys(page, "ArrowDown")
    assert page.locator("#details h2").inner_text() == "advisor audit"
    keys(page, "Escape")
    assert page.locator("#details").is_hidden()
    keys(page, "e")
    assert selected(page) == "execute_tool weather"
    keys(page, "?")
    assert page.locator("#keys").is_visible()
    assert "next error" in page.locator("#keys").inner_text()
    keys(page, "Escape")
    assert page.locator("#keys").is_hidden()
    before = page.locator(".row.selected .bar").bounding_box()
    keys(page, "z")
    after = page.locator(".row.selected .bar").bounding_box()
    assert before and after and after["width"] > 3 * before["width"]
    keys(page, "0")
    again = page.locator(".row.selected .bar").bounding_box()
    assert again and abs(again["width"] - before["width"]) < 1


def test_filter(show: ShowPage) -> None:
    page = show()
    keys(page, "/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("WEATHER")
    assert page.locator("#found").inner_text() == "1"
    assert names(page)[-1] == "execute_tool weather"
    assert "chat gpt-4o-mini" not in names(page)
    keys(page, "Enter")
    assert selected(page) == "execute_tool weather"
    page.locator("#search").fill("no such span")
    assert page.get_by_text("No span has this in its name.").is_visible()
    keys(page, "Escape")
    assert "chat gpt-4o-mini" in names(page)
    assert page.locator("#search").input_value() == ""
    expect(page.locator("#tree")).to_be_focused()


def test_folding_and_quiet_advisors(show: ShowPage) -> None:
    page = show(viewport={"width": 1400, "height": 1500})
    everything = len(names(page))
    row(page, "Round 1").locator(".twist").click()
    assert 0 < len(names(page)) < everything
    assert page.locator("#details").is_hidden()
    row(page, "Round 1").locator(".twist").click()
    page.get_by_role("button", name="Collapse all").click()
    assert len(names(page)) < 10
    page.get_by_role("button", name="Expand all").click()
    assert len(names(page)) == everything
    keys(page, "a")
    quiet = names(page)
    assert "advisor audit" not in quiet
    assert "advisor tool_calling" in quiet and "advisor return_direct" in quiet  # the loop; the short-circuit
    assert page.locator("#quiet").get_attribute("aria-pressed") == "true"
    page.locator(".ring-head", has_text="audit").click()
    assert selected(page) == "advisor audit"


def test_rows_are_a_tree_grid(show: ShowPage) -> None:
    page = show()
    tree = page.locator("#tree")
    assert tree.get_attribute("role") == "treegrid"
    assert tree.get_attribute("aria-rowcount") == "42"  # 38 spans and 4 rounds
    first = page.locator(".row").nth(1)
    attributes = {name: first.get_attribute(f"aria-{name}") for name in ("level", "rowindex", "expanded", "selected")}
    assert attributes == {"level": "2", "rowindex": "2", "expanded": "true", "selected": "false"}
    assert first.locator("[role=gridcell]").count() == 4
    tab_stops = set()
    for _ in range(40):
        keys(page, "Tab")
        tab_stops.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"tree", "search", "theme", "help", "ring-head"} <= tab_stops


def test_several_turns(show: ShowPage) -> None:
    later = 5_000_000_000
    spans = sorted(spans_of_turn(), key=lambda span: span.start)
    second = [
        TraceSpan("b", "1", None, "invoke_agent second", "internal", spans[0].start + later, spans[0].start + 2 * later,
                  attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "second",
                              "gen_ai.input.messages": json.dumps([said("user", "And then?")])}),
        TraceSpan("b", "2", "gone", "GET", "client", spans[0].start - 5, None),
    ]  # fmt: skip
    assert count_turns([*spans, *second]) == 2
    page = show([*spans, *second])
    titles = page.locator(".entry-title")
    assert titles.all_inner_texts() == [QUESTION, "And then?", "GET"]  # turns first
    assert page.locator("h1").inner_text() == "travel desk"
    titles.nth(2).click()
    assert "not over" in page.locator(".row").inner_text()
    assert "No turn of advisorchain" in page.locator("#onion").inner_text()
    titles.nth(1).click()
    assert page.locator("h1").inner_text() == "second"
    assert names(page) == ["invoke_agent second"]
    page.locator("#entries").focus()
    keys(page, "ArrowUp")
    assert page.locator("h1").inner_text() == "travel desk"
    assert page.locator(".entry[aria-selected=true]").count() == 1
    keys(page, "End")
    assert page.locator("h1").inner_text() == "GET"


def test_rounds_are_told_apart_without_a_loop(show: ShowPage) -> None:
    def made(span_id: str, parent: str | None, start: int, **attributes: Any) -> TraceSpan:
        return TraceSpan("t", span_id, parent, f"s{span_id}", "internal", start, start + 5, attributes=attributes)

    number = "advisorchain.round"
    spans = [made("1", None, 0), *(made(str(each), "1", each, **{number: each // 2}) for each in (2, 3, 4, 5))]
    page = show([*spans, made("6", "5", 6, **{number: 2}), made("7", "1", 7)])
    assert names(page) == ["s1", "Round 1", "s2", "s3", "Round 2", "s4", "s5", "s6", "s7"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1400, 900), (800, 600)], ids=["wide", "narrow"])
def test_both_schemes_are_readable(show: ShowPage, scheme: str, size: tuple[int, int]) -> None:
    page = show(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    keys(page, "e")
    background = page.evaluate(CONTRASTS + "colour(getComputedStyle(document.body).backgroundColor)")
    assert (sum(background[:3]) / 3 > 128) == (scheme == "light")
    weak = page.evaluate(CONTRASTS + "weak(4.5)")
    assert weak == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = page.locator(".row.selected").bounding_box()
    assert box and 0 < box["y"] < size[1]
    assert page.locator("#details").bounding_box()["width"] > 250  # type: ignore[index]


def test_the_switch_of_colours(show: ShowPage) -> None:
    page = show(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.locator("#theme")
    assert button.get_attribute("aria-label") == "Colours: light and dark as the system has it"
    button.click()
    assert button.get_attribute("aria-label") == "Colours: dark"
    dark = page.evaluate(ground)
    assert dark != light
    page.emulate_media(color_scheme="dark")
    keys(page, "t")
    assert button.get_attribute("aria-label") == "Colours: light and dark as the system has it"
    assert page.evaluate(ground) == dark
    keys(page, "t")
    assert page.evaluate(ground) == light
