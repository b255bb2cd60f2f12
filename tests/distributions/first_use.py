"""A user's first hour: install, write a plugin, build it, install it, name it in a file, and run that file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from distribution import Distribution
from programs import CheckFailed, Environment, run

TOOLS = '''
from advisorchain import tool


@tool
def allowance(city: str) -> str:
    """The allowance for a day in a city.

    Args:
        city: the city's name.
    """
    return f"{city}: 62 EUR a day"
'''

FILE = """\
model = "keyword"
system = "You are the clerk of a travel desk."
tools = ["desk:allowance"]
telemetry = {advisor_spans = "all"}

[memory]
use = "sqlite"
path = "conversations.db"

[[advisors]]
use = "acme_greeter"
text = "Answer in one sentence."

[[advisors]]
use = "tool_search"
index = "vector"
"""


def check_first_use(core: Distribution, vector: Distribution, scratch: Path) -> str:
    """The whole way, in an environment of its own; returns the printed onion.

    Raises:
        CheckFailed: the program says something else than it must.
    """
    environment = Environment(scratch / "environment-first-use")
    environment.install(f"{core.wheel}[cli]", vector.wheel)
    work = scratch / "first-use"
    work.mkdir()

    def advisorchain(*words: str) -> str:
        return environment.run("advisorchain", *words, cwd=work)

    advisorchain("plugin", "new", "acme-greeter", "--kind", "advisor")
    run("uv", "build", "--quiet", "--wheel", "--out-dir", work, work / "acme-greeter", cwd=work)
    (wheel,) = work.glob("acme_greeter-*.whl")
    environment.install(wheel)

    listed = {row["name"]: row for row in json.loads(advisorchain("plugins", "list", "--json"))}
    for name, distribution in (("acme_greeter", "acme-greeter"), ("vector", vector.name), ("retry", core.name)):
        must(name in listed and listed[name]["distribution"] == distribution, f"plugins list has no {name}", listed)
    must(all(row["problem"] is None for row in listed.values()), "plugins list has problems", listed)
    for name in ("acme_greeter", "vector"):
        checked = advisorchain("plugins", "check", name)
        must("keeps all" in checked, f"plugins check {name}", checked)

    (work / "desk.py").write_text(TOOLS, encoding="utf-8")
    (work / "advisorchain.toml").write_text(FILE, encoding="utf-8")
    checked = advisorchain("config", "check", "advisorchain.toml")
    must(checked == "ok: the top level: model keyword, 5 advisors, 1 tools\n", "config check", checked)

    words = ["run", "--config", "advisorchain.toml", "--conversation", "c1", "--trace-file", "trace.jsonl"]
    answer = advisorchain(*words, "--trace-content", "What is the allowance for Porto?")
    must("Porto: 62 EUR a day" in answer, "run gives another answer", answer)
    _check_trace((work / "trace.jsonl").read_text(encoding="utf-8"))
    remembered = advisorchain("memory", "show", "c1", "--store", "sqlite:///conversations.db")
    must("user: What is the allowance for Porto?" in remembered, "the memory has no turn", remembered)

    onion = advisorchain("explain", "--config", "advisorchain.toml")
    rows = re.findall(r"^ +(\d+)  \W*(\w+)  +(\w+)", onion, re.MULTILINE)
    expected = ["memory", "tool_calling", "tool_search", "acme_greeter", "return_direct", "keyword"]
    must([name for _, name, _ in rows] == expected, "the onion is another", onion)
    must(("620", "acme_greeter", "inside") in rows, "the onion has no acme_greeter inside the loop", onion)
    return onion


def must(holds: bool, otherwise: str, shown: Any) -> None:
    """Raises `CheckFailed` with what was shown."""
    if not holds:
        raise CheckFailed(f"{otherwise}:\n{shown}")


def _check_trace(text: str) -> None:
    """The plugin's advisor took part in both model calls, and the model read its sentence."""
    lines = [line for line in text.splitlines() if "acme_greeter" in line]
    must(len(lines) == 2, "the advisor took part in another number of model calls", text)
    chats = [line for line in text.splitlines() if '"chat keyword"' in line]
    must(len(chats) == 2 and all("Answer in one sentence." in line for line in chats), "the model read it not", text)
