"""Clients of files: what they share (nothing), what they close, what they cost."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from installed_plugins import install

from advisorchain import ChatClient, ConfigurationError
from advisorchain.config import ConfigFile, ConfiguredClient
from advisorchain.failures import DEFAULT_FAILURES

ACME = """
class Acme:
    order = 300
    def __init__(self, *, name: str = "acme") -> None:
        self.name = name
    async def advise(self, request, call_next):
        return await call_next(request)
"""

FULL = """
model = "keyword"
system = "You are a clerk."
name = "clerk"
tools = ["advisorchain.cli.travel_desk:TravelDesk"]

[memory]
use = "sqlite"
path = "memory.db"
inside = true
window = {use = "last_turns", turns = 20}

[audit]
use = "json_lines"
path = "audit.jsonl"

[options]
temperature = 0.5

[[advisors]]
use = "retry"
model = {attempts = 2}

[[advisors]]
use = "model_fallback"
models = ["keyword"]

[[advisors]]
use = "tool_search"
index = "regex"

[[advisors]]
use = "circuit_breaker"

[chains.plain]
model = "keyword"
tool_loop = false
"""


async def test_a_whole_chain_runs(load: Any, run: Any, tmp_path: Path) -> None:
    async with load(FULL) as client:
        response = await run(client, "Status of TR001?", conversation_id="c1")
        assert response.text == "TR001 is approved. Amount: 5000. Department: engineering."
        assert client.name == "clerk"
    assert (tmp_path / "audit.jsonl").read_text().count("\n") >= 2
    assert (tmp_path / "memory.db").exists()


def test_named_chains_inherit_nothing(load: Any) -> None:
    client = load(FULL, "plain")
    assert client.name == "plain"
    assert [entry.name for entry in client.chain.entries] == []
    assert client._options.temperature is None


def test_a_file_is_read_once_and_gives_many_clients(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(FULL)
    file = ConfigFile(tmp_path / "a.toml")
    assert file.chains == (None, "plain")
    (tmp_path / "a.toml").unlink()
    assert type(file.client()) is type(file.client("plain")) is ConfiguredClient


def test_a_file_of_named_chains_only(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[mcp.a]\nurl = "https://a.org/mcp"\n[chains.one]\nmodel = "keyword"\nmcp = ["a"]')
    assert ConfigFile(tmp_path / "a.toml").chains == ("one",)


def test_variables_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('model = "${MODEL}"')
    assert type(ConfigFile(tmp_path / "a.toml", environ={"MODEL": "keyword"}).client().model).__name__ == "KeywordModel"
    with pytest.raises(ConfigurationError, match="MODEL is not set"):
        ConfigFile(tmp_path / "a.toml", environ={}).client()


def parts(thing: Any, seen: dict[int, Any]) -> dict[int, Any]:
    """Everything mutable of ours that can be reached from a thing, by id."""
    if thing is DEFAULT_FAILURES:  # the package's own table, which everybody reads
        return seen
    if id(thing) in seen or isinstance(thing, str | bytes | int | float | bool | type(None) | type):
        return seen
    if isinstance(thing, dict):
        inner: list[Any] = list(thing.values())
    elif isinstance(thing, list | tuple | set | frozenset):
        inner = list(thing)
    elif type(thing).__module__.startswith("advisorchain"):
        inner = list(getattr(thing, "__dict__", {}).values())
        inner += [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
        if getattr(type(thing), "__dataclass_params__", None) is None or not type(thing).__dataclass_params__.frozen:
            seen[id(thing)] = thing
    else:
        return seen
    if isinstance(thing, dict | list | set):
        seen[id(thing)] = thing
    for each in inner:
        parts(each, seen)
    return seen


async def test_two_clients_share_nothing(tmp_path: Path) -> None:
    clients: list[Any] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.toml").write_text(FULL.replace("clerk", name))
        clients.append(ChatClient.from_config(tmp_path / name / "a.toml"))
    one, two = clients
    ours = parts(one._advisors, {})
    theirs = parts(two._advisors, {})
    assert len(ours) > 30
    assert [thing for key, thing in ours.items() if key in theirs] == []
    assert one.model is not two.model
    async with one, two:
        await one.call("Status of TR001?", conversation_id="c")
        assert len(await store_of(one).conversations()) == 1
        assert len(await store_of(two).conversations()) == 0
        records = [(tmp_path / name / "audit.jsonl").read_text().count("\n") for name in ("one", "two")]
        assert records[0] > 2 and records[1] == 1  # the record that begins a file


def store_of(client: Any) -> Any:
    return next(entry.advisor.store for entry in client.chain.entries if entry.name == "memory")


CLOSING = """
from advisorchain import Advisor

closed = []

class Closing(Advisor):
    order = 300
    def __init__(self, label: str, fail: bool = False, wrong: bool = False) -> None:
        if wrong:
            raise ValueError("wrong")
        self.label, self.fail = label, fail
    async def advise(self, request, call_next):
        return await call_next(request)

class Async(Closing):
    async def aclose(self):
        closed.append(self.label)
        if self.fail:
            raise OSError("gone")

class Sync(Closing):
    def close(self):
        closed.append(self.label)
"""


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    import importlib
    import sys

    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "config_closing.py").write_text(CLOSING)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "config_closing", raising=False)
    found: list[str] = importlib.import_module("config_closing").closed
    return found


def entry(kind: str, label: str, more: str = "") -> str:
    return f'[[advisors]]\nuse = "config_closing:{kind}"\nlabel = "{label}"\n{more}\n'


async def test_all_is_closed_in_reverse_although_one_fails(
    load: Any, closed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    text = 'model = "keyword"\n' + entry("Async", "a") + entry("Async", "b", "fail = true") + entry("Sync", "c")
    async with load(text) as client:
        await client.call("Hello")
        assert closed == []
    assert closed == ["c", "b", "a"]
    assert "Async could not be closed: OSError" in caplog.text


def test_closing_in_sync_code(load: Any, closed: list[str]) -> None:
    with load('model = "keyword"\n' + entry("Async", "a")) as client:
        client.call_sync("Hello")
    assert closed == ["a"]


def test_what_was_made_is_closed_when_the_rest_fails(refused: Any, closed: list[str]) -> None:
    told = refused('model = "keyword"\n' + entry("Sync", "a") + entry("Sync", "b", "wrong = true"))
    assert "cannot make 'config_closing:Sync': ValueError: wrong." in told
    assert closed == ["a"]


# Cost ----------------------------------------------------------------------------------------------------------------


def median_seconds(path: Path) -> float:
    """CPU seconds of `from_config`, the median of 7; the best of five tries, since other processes disturb it."""
    medians = []
    for _ in range(5):
        seconds = []
        for _ in range(7):
            start = time.process_time()
            ChatClient.from_config(path)
            seconds.append(time.process_time() - start)
        medians.append(statistics.median(seconds))
        if medians[-1] < 0.03:
            break
    return min(medians)


def test_a_client_of_a_file_is_made_in_a_few_milliseconds(load: Any, tmp_path: Path) -> None:
    load(FULL)  # the imports that it needs
    assert median_seconds(tmp_path / "advisorchain.toml") < 0.03


def test_with_200_plugins_installed(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    for number in range(200):
        install(site, f"acme-{number}", {"advisors": {f"acme_{number}": f"acme_{number}:Acme"}})
    (site / "acme_7.py").write_text(ACME)
    monkeypatch.syspath_prepend(site)
    text = FULL + "".join(f'[[advisors]]\nuse = "acme_7"\nname = "acme_{number}"\n' for number in range(5))
    text = text.replace('[chains.plain]\nmodel = "keyword"\ntool_loop = false\n', "")
    client = load(text)
    assert sum(entry.name.startswith("acme_") for entry in client.chain.entries) == 5
    assert median_seconds(tmp_path / "advisorchain.toml") < 0.03


def test_a_request_costs_what_it_costs_without_a_file(load: Any) -> None:
    """The chain is the same: the class of the client adds nothing to a call."""
    client = load(FULL)
    names = [name for name, value in vars(ChatClient).items() if callable(value) and not name.startswith("__")]
    assert {"call", "stream", "_prepare", "_chain"} <= set(names)
    assert [name for name in names if name in vars(type(client))] == []
    kinds = {type(entry.advisor).__module__ for entry in client.chain.entries}
    assert not [kind for kind in kinds if kind.startswith("advisorchain.config")]
    assert type(client.model).__module__ == "advisorchain.models.keyword"


def test_what_a_file_does_not_need_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('model = "keyword"\nadvisors = ["retry"]\n')
    program = (
        "import sys; from advisorchain import ChatClient; ChatClient.from_config(sys.argv[1])\n"
        "print(*(name for name in ('opentelemetry', 'mcp', 'advisorchain.telemetry') if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.toml")], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("\n", "")
