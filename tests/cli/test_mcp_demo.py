"""``advisorchain demo --mcp``: what it prints is what happened, in real server processes, of which none is left."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_client import children, lives, wait_for
from rich.cells import cell_len
from rich.console import Console

from advisorchain import AssistantMessage, ConfigurationError, ToolMessage, tool
from advisorchain.cli.demo_texts import Language
from advisorchain.cli.domain_desks import (
    ActivityDesk,
    ActivityDeskInChinese,
    OrderDesk,
    OrderDeskInChinese,
    UserDesk,
)
from advisorchain.cli.mcp_demo import McpDesk, TurnRun
from advisorchain.cli.mcp_demo_texts import CHINESE, ENGLISH, MCP_TEXTS
from advisorchain.cli.mcp_demo_view import McpDemo, show_mcp
from advisorchain.cli.travel_desk import TravelDesk, TravelDeskInChinese
from advisorchain.mcp import McpServer
from advisorchain.mcp.serving import mcp_server
from advisorchain.models import KeywordModel

from .conftest import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
ACTIVITY_TOOLS = ["queryActivity", "updateActivity", "querySignupList", "closeActivity"]
DESKS: dict[Language, tuple[Any, ...]] = {
    "en": (TravelDesk, OrderDesk, ActivityDesk, UserDesk),
    "zh": (TravelDeskInChinese, OrderDeskInChinese, ActivityDeskInChinese, UserDesk),
}


def in_process(language: Language, **desks: Any) -> list[McpServer]:
    """The four servers in this process; ``desks`` replaces some."""
    kinds = dict(zip(("travel", "order", "activity", "user"), DESKS[language], strict=True)) | desks
    return [
        McpServer.in_process(mcp_server([kind()], name=name), name=name, trusted=name == "travel")
        for name, kind in kinds.items()
    ]


def console_of(width: int, terminal: bool = False) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "no_color": True}
    return Console(file=out, width=width, force_terminal=terminal, **options), out


def attempts(run: TurnRun) -> list[tuple[str, str, Any]]:
    return [(attempt.server, attempt.name, attempt.arguments) for attempt in run.watched.attempts]


def check_width(text: str, width: int) -> None:
    lines = [re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", line) for line in re.split("[\n\r]", text)]
    too_long = [line for line in lines if cell_len(line) > width]
    assert all(re.search(r"\S{24}", line) for line in too_long), too_long  # one unbreakable name may be longer


# The dialogue --------------------------------------------------------------------------------------------------------


class OtherOrders(OrderDesk):
    """The same story with other numbers: a script that knew them would not follow it."""

    def __init__(self) -> None:
        super().__init__()
        self._orders = {"O5": {**self._orders["O1002"], "order_id": "O5"}}
        self._refunds = {"O5": {**self._refunds["O1002"], "order_id": "O5", "because_of_activity": "A9"}}


class OtherActivities(ActivityDesk):
    def __init__(self) -> None:
        super().__init__()
        self._activities = {"A9": {**self._activities["A42"], "activity_id": "A9"}}


@pytest.mark.parametrize("other", [False, True], ids=["", "other numbers"])
async def test_each_argument_is_from_the_result_before(run: Any, other: bool) -> None:
    desks = {"order": OtherOrders, "activity": OtherActivities} if other else {}
    desk = McpDesk(in_process("en", **desks), "en")
    async with desk.tools:
        response = await run(desk.client, ENGLISH.turns[1].question)
    messages = response.new_messages
    calls = [message.tool_calls for message in messages if isinstance(message, AssistantMessage)]
    assert [[call.name for call in made] for made in calls] == [
        ["queryOrderList"], ["queryRefundStatus"], ["queryActivity"], [],
    ]  # fmt: skip
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [(result.source, result.trusted) for result in results] == [
        ("order", False), ("order", False), ("activity", False),
    ]  # fmt: skip
    orders, refund, activity = (json.loads(result.text) for result in results)
    assert calls[1][0].arguments == {"order_id": orders["orders"][-1]["order_id"]}
    assert calls[2][0].arguments == {"activity_id": refund["because_of_activity"]}
    assert activity["activity_id"] == refund["because_of_activity"] == ("A9" if other else "A42")
    assert response.stop_reason == "final"
    for part in (refund["order_id"], refund["refund_id"], activity["activity_id"], activity["name"], "storm warning"):
        assert part in response.text


async def test_the_travel_desk_returns_directly_tool_by_tool(run: Any) -> None:
    desk = McpDesk(in_process("en"), "en", KeywordModel())
    async with desk.tools:
        direct = await run(desk.client, "What is the status of the travel request TR001?")
        flags = {tool.name: tool.return_direct for tool in await desk.tools.listed()}
    assert (direct.stop_reason, direct.text) == (
        "return_direct", "TR001 is approved. Amount: 5000. Department: engineering.",
    )  # fmt: skip
    assert [name for name, flag in flags.items() if flag] == ["query_travel_request"]
    (notes,) = [status.notes for status in desk.tools.status() if status.notes]
    assert list(notes) == ["queryUserPoints"], "the flag of a server that is not trusted counts for nothing"


async def test_without_an_order_there_is_nothing_to_say(run: Any) -> None:
    class NoOrders(OrderDesk):
        @tool(name="queryOrderList")
        async def query_order_list(self, user_id: str) -> dict[str, Any]:
            """All orders of a user."""
            return {"orders": []}

    desk = McpDesk(in_process("en", order=NoOrders), "en")
    async with desk.tools:
        assert (await run(desk.client, ENGLISH.turns[1].question)).text == ENGLISH.nothing


async def test_the_other_tools_of_the_desks_work() -> None:
    orders, activities, users = OrderDesk(), ActivityDesk(), UserDesk()
    assert (await orders.apply_refund("O1001", "broken"))["refund_id"] == "R78"
    assert (await orders.apply_refund("O1001", "again"))["refund_id"] == "R78", "twice is once"
    assert (await orders.query_order("O1001"))["status"] == "refunding"
    assert (await activities.update_activity("A42", "Hike"))["name"] == "Hike"
    assert (await activities.query_signup_list("A42"))["users"] == ["U7"]
    assert (await activities.close_activity("A42"))["status"] == "closed"
    assert (await users.adjust_points("U7", -20))["points"] == 100
    assert (await users.query_user_points("U7"))["points"] == 100
    assert (await users.send_notification("U7", "hello"))["sent"] == 1
    for missing in (orders.query_refund_status("O1"), activities.query_activity("A1"), users.query_user_points("U1")):
        with pytest.raises(Exception, match="There is no"):
            await missing


# The demo ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "backend", "width"), [("en", "asyncio", 80), ("zh", "trio", 60)])
def test_every_turn_is_what_the_chain_did(language: Language, backend: str, width: int) -> None:
    texts, before = MCP_TEXTS[language], children()
    console, out = console_of(width, terminal=True)
    runs = anyio.run(show_mcp, language, None, None, console, backend=backend)
    assert not children() - before, "a server process is left"
    text = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    check_width(out.getvalue(), width)

    direct, chained, dies, after = runs
    chain = [
        ("order", "queryOrderList", {"user_id": "U7"}),
        ("order", "queryRefundStatus", {"order_id": "O1002"}),
        ("activity", "queryActivity", {"activity_id": "A42"}),
    ]
    assert attempts(direct) == [("travel", "query_travel_request", {"request_id": "TR001"})]
    assert (direct.response.stop_reason, direct.watched.model_calls) == ("return_direct", 1)
    assert (attempts(chained), chained.response.stop_reason) == (chain, "final")
    assert attempts(dies) == [*chain, chain[2]]
    assert [bool(attempt.error) for attempt in dies.watched.attempts] == [False, False, True, True]
    assert {attempt.error for attempt in dies.watched.attempts[2:]} <= {"McpError", "McpConnectionError"}
    assert attempts(after) == chain[:2]
    assert [run.after.state for run in runs] == ["closed", "closed", "open", "open"]
    offered = [[len(request.tools) for request in run.watched.requests] for run in runs]
    assert offered == [[13], [13] * 4, [13, 13, 13, 9], [9] * 3]
    assert not set(ACTIVITY_TOOLS) & set(after.watched.requests[0].tools.names)

    assert texts.activity.partition("{")[0] in chained.response.text
    for run in (dies, after):
        missing = texts.missing.format(activity_id="A42")
        assert (
            missing in run.response.text and texts.please_ask.format(contact="events@example.com") in run.response.text
        )
        assert "R77" in run.response.text, "what is known is said"
    places = [text.index(f"\n{number}  {turn.name}\n") for number, turn in enumerate(texts.turns, 1)]
    parts = [text[start:end] for start, end in zip(places, [*places[1:], text.index(f"\n{texts.end}\n")], strict=True)]
    assert [f"{texts.left_out} " in part for part in parts] == [False, False, True, True]
    assert [f"{texts.circuits['open']} · " in part for part in parts] == [False, False, True, True]
    assert [texts.killed in part.replace("\n", " ") for part in parts] == [False, False, True, False]
    assert "→ travel 2 · order 4 · user 3" in parts[2] and "travel 2 · order 4 · activity 4 · user 3" in parts[1]
    assert texts.direct in parts[0] and texts.direct not in parts[1]
    end = text[text.index(f"\n{texts.end}\n") :]
    assert re.search(rf"activity +✗ {texts.states['failed']}", end) and end.count(texts.states["connected"]) == 3


@pytest.mark.parametrize("width", [40, 72, 120])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_it_fits_any_terminal(language: Language, width: int) -> None:
    console, out = console_of(width, terminal=True)
    runs = await McpDemo(McpDesk(in_process(language), language), lambda: None, None, console).show()
    check_width(out.getvalue(), width)
    assert [run.after.state for run in runs] == ["closed"] * 4, "here nobody was killed"
    assert MCP_TEXTS[language].missing.partition("{")[0] not in out.getvalue()


async def test_a_server_that_does_not_start() -> None:
    servers = in_process("en")
    servers[1] = McpServer.stdio("no-such-program", name="order")
    console, out = console_of(100)
    with pytest.raises(ConfigurationError, match="The server 'order' could not be started: the command"):
        await McpDemo(McpDesk(servers, "en"), lambda: None, None, console).show()
    assert ENGLISH.servers not in out.getvalue()


def test_the_chinese_demo_is_chinese() -> None:
    for field in CHINESE.__slots__:
        value = getattr(CHINESE, field)
        values = [value] if isinstance(value, str) else list(value.values()) if isinstance(value, dict) else []
        assert all(re.search("[\u4e00-\u9fff]", text) for text in values), field
    assert len(CHINESE.turns) == len(ENGLISH.turns)


async def test_another_model() -> None:
    """What is shown is what it did."""
    console, out = console_of(100)
    runs = await McpDemo(McpDesk(in_process("en"), "en", KeywordModel()), lambda: None, "keyword", console).show()
    assert "model: keyword\n" in out.getvalue() and ENGLISH.script not in out.getvalue()
    assert all(run.response.text in out.getvalue() for run in runs[:1])


def test_the_command_prints_what_the_docs_show(advisorchain: Any, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    done = advisorchain("demo", "--mcp", TMPDIR=str(place), OPENAI_API_KEY="unused: the demo is offline")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout and ENGLISH.closed in done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
    assert list(place.iterdir()) == [] and not working_in(place)
    page = PAGE.read_text(encoding="utf-8")
    excerpt = (
        page.partition("## Four MCP servers")[2]
        .partition("<!-- part of the output -->\n```text\n")[2]
        .partition("```")[0]
    )
    assert "McpConnectionError" in excerpt
    assert re.search(re.escape(excerpt).replace(re.escape("..."), "[^\n]*?"), done.stdout), done.stdout


def working_in(place: Path) -> set[int]:
    """The processes whose directory is below this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "cwd").readlink()).startswith(str(place)):
                    found.add(int(entry.name))
            except OSError:
                continue
    return {pid for pid in found if lives(pid)}


SIGNALS_ITSELF = """
import os, sys
from advisorchain.cli import main

moment, signum = sys.argv.pop(1), int(sys.argv.pop(1))
write = sys.stdout.write

def watched(text):
    done = write(text)
    if moment in text:
        sys.stdout.write = write
        os.kill(os.getpid(), signum)
    return done

sys.stdout.write = watched
main()
"""
"""The demo, which sends itself a signal when it has printed something: no machine is too slow for the moment."""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["starting", "1  return direct", "3  the activity server dies"])
@pytest.mark.parametrize(
    ("signum", "code", "says"), [(signal.SIGINT, 130, "cancelled"), (signal.SIGTERM, 143, "terminated")]
)
def test_ctrl_c_leaves_nothing(tmp_path: Path, moment: str, signum: Any, code: int, says: str) -> None:
    program = ["-m", "advisorchain.cli"] if moment == "starting" else ["-c", SIGNALS_ITSELF, moment, str(int(signum))]
    command = [sys.executable, *program, "demo", "--mcp"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(TMPDIR=str(tmp_path)), text=True
    )
    if moment == "starting":
        assert wait_for(lambda: len(working_in(tmp_path)) == 4, 30.0)
        process.send_signal(signum)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (code, f"error: {says}\n")
    assert ENGLISH.closed not in out
    assert wait_for(lambda: not working_in(tmp_path), 5.0), "a server process is left"
    assert list(tmp_path.iterdir()) == []
