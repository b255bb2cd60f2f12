"""``advisorchain tools search``: what a search finds, from the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TOOLS = '''
from advisorchain import ToolRegistry, tool


@tool
def get_weather(city: str) -> str:
    """Give the weather of a city."""
    return "dry"


@tool
def send_email(to: str) -> str:
    """Send an email \\x1b[31mto somebody."""
    return "sent"


@tool(name="查询天气")
def chinese(city: str) -> str:
    """查询一个城市的天气预报。"""
    return "晴"


class Provider:
    async def tools(self, request):
        return [get_weather, chinese]


everything = [get_weather, send_email, chinese]
provider = Provider()
twice = [get_weather, get_weather]
'''


@pytest.fixture(autouse=True)
def module(work_dir: Path) -> None:
    (work_dir / "desk.py").write_text(TOOLS, encoding="utf-8")


def test_search(advisorchain: Any) -> None:
    done = advisorchain("tools", "search", "what is the weather in Paris?", "--from", "desk:everything")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert line.split(maxsplit=2)[1:] == ["get_weather", "Give the weather of a city."]
    assert float(line.split()[0]) > 0


def test_another_script_and_a_provider(advisorchain: Any) -> None:
    done = advisorchain("tools", "search", "上海天气怎么样", "-f", "desk:provider", "-f", "desk:send_email")
    assert done.returncode == 0
    assert "查询天气" in done.stdout


def test_json(advisorchain: Any) -> None:
    done = advisorchain(
        "tools", "search", "email|weather", "--from", "desk:everything", "-i", "regex", "--json", "-k", "1"
    )
    (row,) = json.loads(done.stdout)
    assert row["name"] in ("send_email", "get_weather")
    assert row["score"] > 0
    assert row["description"]


def test_what_tools_say_cannot_drive_the_terminal(advisorchain: Any) -> None:
    done = advisorchain("tools", "search", "email", "--from", "desk:everything")
    assert "\x1b" not in done.stdout
    assert "send_email" in done.stdout


def test_nothing_fits(advisorchain: Any) -> None:
    done = advisorchain("tools", "search", "quantum", "--from", "desk:everything")
    assert (done.returncode, done.stdout.strip()) == (0, "None of the 3 tools fits.")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["weather"], 2, "--from"),
        ([" ", "--from", "desk:everything"], 2, "query is empty"),
        (["weather", "--from", "desk"], 2, "--from 'desk': write module:object"),
        (["weather", "--from", "desk:nothing"], 1, "--from 'desk:nothing': desk has no 'nothing'"),
        (["weather", "--from", "desk:everything", "--index", "nothing"], 1, "no tool index 'nothing'"),
        (["(", "--from", "desk:everything", "--index", "regex"], 1, "pattern"),
        (["weather", "--from", "desk:everything", "-k", "0"], 2, "-k"),
        (["weather", "--from", "desk:twice"], 1, "get_weather"),
    ],
)
def test_mistakes(advisorchain: Any, arguments: list[str], code: int, text: str) -> None:
    done = advisorchain("tools", "search", *arguments)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr
