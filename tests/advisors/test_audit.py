"""AuditAdvisor: what its records say, what they never say, and what happens when the sink fails."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel, Field, SecretStr

from advisorchain import (
    AuditError,
    ChatClient,
    ConfigurationError,
    ModelError,
    Order,
    ToolCall,
    ToolError,
    Usage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import AuditAdvisor, ModelFallbackAdvisor, RetryAdvisor
from advisorchain.audit import AuditRecord, JsonLinesSink, LoggingSink, Redaction, SqliteSink, records, verify
from advisorchain.shield import in_trio
from advisorchain.testing import ScriptedModel


class ListSink:
    """Keeps records; fails for those whose kind is in ``failing``."""

    def __init__(self, *failing: str, waits: bool = False) -> None:
        self.records: list[AuditRecord] = []
        self.failing = set(failing)
        self.durable: list[bool] = []
        self.waits = waits

    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        if self.waits:
            return self._later(record, durable)
        self._write(record, durable)
        return None

    async def _later(self, record: AuditRecord, durable: bool) -> None:
        await anyio.lowlevel.checkpoint()
        self._write(record, durable)

    def _write(self, record: AuditRecord, durable: bool) -> None:
        if record["kind"] in self.failing or "*" in self.failing:
            raise OSError("the sink is broken")
        self.records.append(record)
        self.durable.append(durable)

    def digest(self, data: bytes) -> str:
        return f"digest of {data.decode()}"

    @property
    def kinds(self) -> list[str]:
        return [record["kind"] for record in self.records]


ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    ran.append("add")
    return a + b


@tool(return_direct=True)
async def price(product: str) -> str:
    """Price."""
    return f"{product}: 80 €"


@tool
async def broken(password: str = "") -> str:
    """Break."""
    raise ValueError(f"no access with {password}")


@tool
async def said(text: str) -> str:
    """Say why not."""
    raise ToolError(text)


@tool(timeout=0.01)
async def slow() -> str:
    """Take long."""
    await anyio.sleep(5)
    return ""


TOOLS = [add, price, broken, said, slow]


def client(sink: Any, *steps: Any, usage: Usage | None = None, extra: Any = (), **settings: Any) -> ChatClient:
    advisors = [AuditAdvisor(sink, **settings), *extra]
    return ChatClient(ScriptedModel(steps, name="m1", usage=usage), tools=TOOLS, advisors=advisors)


@pytest.mark.parametrize("waits", [False, True])
async def test_one_record_per_tool_call_and_one_per_turn(run: Any, waits: bool) -> None:
    sink = ListSink(waits=waits)
    calls = [ToolCall("add", '{"b": 2, "a": 1}'), ToolCall("broken", {}), ToolCall("nothing", "{}")]
    chat = client(
        sink, calls, [ToolCall("add", {"a": "x"}), ToolCall("slow", {})], "Done.", usage=Usage(10, 5), clock=lambda: 7.5
    )
    await run(chat, "Go", conversation_id="c1")
    assert sink.kinds == ["tool"] * 5 + ["turn"]
    tools = {(r["tool"], r["round"]): r for r in sink.records[:5]}
    assert {key: (r["outcome"], r.get("error")) for key, r in tools.items()} == {
        ("add", 1): ("ok", None),
        ("broken", 1): ("error", "ValueError"),
        ("nothing", 1): ("unknown_tool", "UnknownToolError"),
        ("add", 2): ("invalid_arguments", "ToolArgumentsError"),
        ("slow", 2): ("timeout", "ToolTimeoutError"),
    }
    good, turn = tools["add", 1], sink.records[-1]
    assert good["seconds"] >= 0
    assert good == {
        "kind": "tool", "time": 7.5, "turn": turn["turn"], "conversation": "c1", "round": 1, "call": calls[0].id,
        "tool": "add", "source": "local", "arguments_hash": 'digest of {"a":1,"b":2}', "return_direct": False,
        "seconds": good["seconds"], "outcome": "ok", "bytes": 1,
    }  # fmt: skip
    assert tools["nothing", 1]["source"] == "unknown"
    assert turn == {
        "kind": "turn", "time": 7.5, "turn": turn["turn"], "conversation": "c1", "model": "m1",
        "advisors": ["audit", "tool_calling", "return_direct"], "outcome": "ok", "seconds": turn["seconds"],
        "rounds": 2, "model_calls": 3, "tool_calls": 5, "input_tokens": 30, "output_tokens": 15, "stop_reason": "final",
        "bytes": 5,
    }  # fmt: skip
    assert sink.durable == [False] * 6


async def test_return_direct_declared_and_taken(run: Any) -> None:
    sink = ListSink()
    call = ToolCall("price", {"product": "lamp"})
    await run(client(sink, [call]), "How much?")
    tool_record, turn = sink.records
    assert (tool_record["return_direct"], tool_record["bytes"]) == (True, len("lamp: 80 €".encode()))
    assert (turn["stop_reason"], turn["direct"]) == ("return_direct", [call.id])
    sink = ListSink()
    await run(client(sink, [call, ToolCall("add", {"a": 1, "b": 1})], "80"), "How much?")
    assert [r.get("return_direct") for r in sink.records] == [True, False, None]
    assert "direct" not in sink.records[-1]


@pytest.mark.parametrize("error", [ModelError("down"), RuntimeError("bug")])
async def test_a_failed_turn_is_recorded(run: Any, error: Exception) -> None:
    sink = ListSink()
    with pytest.raises(type(error)):
        await run(client(sink, [ToolCall("add", {"a": 1, "b": 1})], error), "Go")
    assert sink.kinds == ["tool", "turn"]
    turn = sink.records[-1]
    assert (turn["outcome"], turn["error"], turn["tool_calls"]) == ("error", type(error).__name__, 1)


async def test_what_fails_after_the_advisor_is_recorded_too(run: Any) -> None:
    sink = ListSink()
    with pytest.raises(Exception, match="int"):
        await run(client(sink, "no number"), "Go", output_type=int)
    assert [(r["kind"], r["outcome"], r["error"]) for r in sink.records] == [("turn", "error", "OutputError")]

    @chat_advisor(order=Order.MEMORY)
    async def remembers(request: Any, call_next: Any) -> Any:
        async def fail(end: Any) -> None:
            raise OSError("store is down")

        request.context.at_turn_end(fail)
        return await call_next(request)

    sink = ListSink()
    with pytest.raises(OSError, match="store is down"):
        await run(client(sink, "Hi", extra=[remembers]), "Go")
    assert [(r["outcome"], r["error"]) for r in sink.records] == [("error", "OSError")]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("required", [False, True])
async def test_a_cancelled_call_and_turn_are_recorded(run: Any, waits: bool, required: bool) -> None:
    sink = ListSink(waits=waits)

    @tool(timeout=None)
    async def forever() -> str:
        """Never end."""
        await anyio.sleep_forever()
        return ""

    chat = client(sink, [ToolCall("forever", {})], required=required)
    with anyio.move_on_after(0.05):
        await run(chat, "Go", tools=[forever])
    done = [(r["kind"], r["outcome"]) for r in sink.records if "outcome" in r]
    assert done == [("tool", "cancelled"), ("turn", "cancelled")]


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), SystemExit(1), BaseExceptionGroup("two", [SystemExit(1), ValueError()])],
    ids=repr,
)
async def test_a_failure_that_looks_like_a_cancellation_is_an_error(run: Any, error: BaseException) -> None:
    @tool
    async def leaks() -> str:
        """Leak what its transport has raised."""
        raise error

    sink = ListSink()
    await run(client(sink, [ToolCall("leaks")], "done"), "Go", tools=[leaks])
    assert [(r["outcome"], r.get("error")) for r in sink.records] == [("error", type(error).__name__), ("ok", None)]


async def test_the_model_is_the_one_that_answered(run: Any) -> None:
    other = ScriptedModel(["Hi", "Hi"], name="other")

    @chat_advisor(order=Order.FALLBACK)
    async def router(request: Any, call_next: Any) -> Any:
        return await call_next(request.replace(model=other))

    down = ModelError("down", transient=True)
    for extra in (ModelFallbackAdvisor([other]), router):
        sink = ListSink()
        await run(client(sink, down, extra=[extra]), "Go")
        assert [record["model"] for record in sink.records] == ["other"]


async def test_an_outer_advisor_that_asks_again_makes_no_second_turn(run: Any) -> None:
    @chat_advisor(order=50)
    async def twice(request: Any, call_next: Any) -> Any:
        await call_next(request.muted())
        return await call_next(request)

    sink = ListSink()
    await run(client(sink, "one", "two", extra=[twice]), "Go")
    assert sink.kinds == ["turn"]
    assert sink.records[0]["model_calls"] == 2


async def test_a_sub_agent_has_records_of_its_own(run: Any) -> None:
    sink = ListSink()
    advisor = AuditAdvisor(sink)
    inner = ChatClient(
        ScriptedModel([[ToolCall("add", {"a": 1, "b": 2})], "3"], name="inner"), tools=[add], advisors=[advisor]
    )
    model = ScriptedModel([[ToolCall("ask", {"prompt": "1+2"})], "It is 3."], name="outer")
    await run(ChatClient(model, tools=[inner.as_tool("ask", "Ask.")], advisors=[advisor]), "Go")
    found = [(r["kind"], r.get("tool") or r["model"], r.get("path")) for r in sink.records]
    assert found == [
        ("tool", "add", ("ask",)), ("turn", "inner", ("ask",)), ("tool", "ask", None), ("turn", "outer", None),
    ]  # fmt: skip


# Values --------------------------------------------------------------------------------------------------------------

SECRET = 'hunter2-äß-"quoted"-sécret'


class Login(BaseModel):
    user: str
    key: SecretStr = Field(alias="the_key")


@dataclass
class Account:
    name: str
    iban: str


class Badge:
    def __str__(self) -> str:
        return SECRET


@tool
async def vault(request: dict[str, Any], note: str = "") -> Any:
    """Keep secrets."""
    return {"token": SECRET, "echo": note, "deep": [{"login": Login(user="ada", the_key=SECRET)}], "badge": Badge()}


@tool
async def login(user: str, key: SecretStr) -> str:
    """Log in."""
    return f"{user} is in with {key.get_secret_value()}"


@tool
async def text_of(note: str) -> str:
    """A text."""
    return f'{{"password": "{note}"}} and api_key={note} and Authorization: Bearer {note}'


@pytest.mark.parametrize("raw", [False, True])
async def test_secrets_appear_nowhere_in_the_file(run: Any, tmp_path: Path, raw: bool) -> None:
    nested = {"a": [{"b": {"dbPassword": SECRET, "SSN": SECRET + "1"}}], "json": json.dumps({"API-Key": SECRET})}
    arguments: Any = {"request": nested, "note": f"it is {SECRET} again"}
    plain = "hunter2plain"
    calls = [
        ToolCall("vault", json.dumps(arguments) if raw else arguments),
        ToolCall("login", json.dumps({"user": "ada", "key": SECRET}) if raw else {"user": "ada", "key": SECRET}),
        ToolCall("text_of", {"note": plain}),
        ToolCall("broken", {"password": SECRET}),
        ToolCall("add", f'{{"password": "{plain}", "a": '),
    ]
    sink = JsonLinesSink(tmp_path / f"audit-{raw}.jsonl")
    model = ScriptedModel([calls, f"Your password is {SECRET}."])
    advisor = AuditAdvisor(sink, values=True, redact_fields=["ssn"], max_chars=None)
    chat = ChatClient(model, tools=[vault, login, text_of, broken, add], advisors=[advisor])
    await run(chat, f"My password is {SECRET}, tell me.")
    data = sink.path.read_bytes()
    for form in ("hunter2", "sécret", "s\\u00e9cret"):
        assert form.encode() not in data, form
    found = {r["tool"]: r for r in records(sink.path) if r["kind"] == "tool"}
    assert found["vault"]["arguments"]["request"]["a"] == [{"b": {"dbPassword": "[redacted]", "SSN": "[redacted]"}}]
    assert found["vault"]["result"]["deep"] == [{"login": {"user": "ada", "key": "[redacted: SecretStr]"}}]
    assert found["login"]["arguments"] == {"user": "ada", "key": "[redacted: SecretStr]"}
    assert found["login"]["result"] == "ada is in with [redacted]"
    assert found["text_of"]["result"].count("[redacted]") == 3
    assert found["add"]["arguments"] == f"[malformed: {len(calls[-1].arguments or '')} characters]"
    assert verify(sink.path).ok


class Credentials(NamedTuple):
    user: str
    password: str


class Field_(Enum):
    PASSWORD = 1


class Aliased(BaseModel):
    pw: str = Field(default=SECRET, serialization_alias="password")


@dataclass
class Person:
    name: str
    friends: list[Person] = field(default_factory=list)


@pytest.mark.parametrize(
    "value",
    [
        Credentials("ada", SECRET),
        Aliased(),
        {b"password": SECRET},
        {Field_.PASSWORD: SECRET},
        {"Passwords": [SECRET]},
        {"SECRET_KEY": SECRET},
        {"CONTRASEN\u0303A": SECRET},  # as some systems write the letter: in two parts
        {"STRASSE": SECRET},
        [{"credentials": Person(SECRET)}, f"It is {SECRET}."],
        [{"token": frozenset([SECRET])}, f"It is {SECRET}."],
        "Response: " + json.dumps({"body": json.dumps({"password": "hunter2 and hunter2", "a": 1})}),
        "Response: " + json.dumps(json.dumps(json.dumps({"password": "hunter2 and hunter2", "a": 1}))),
    ],
    ids=repr,
)
def test_a_secret_is_known_by_its_name_wherever_that_stands(value: Any) -> None:
    redaction = Redaction(["contraseña", "Straße"], max_chars=None)
    clean = json.dumps(redaction.value(value, set()), ensure_ascii=False)
    assert "hunter2" not in clean and "[redacted]" in clean


def test_values_that_know_each_other_come_to_an_end() -> None:
    people = [Person(str(number)) for number in range(40)]
    for person in people:
        person.friends = people
    secrets: set[str] = set()
    clean = Redaction(max_chars=None).value([people, {"password": people}], secrets)
    assert len(json.dumps(clean)) < 200_000
    assert clean[0][39]["name"] == "39", "each is there once at least"
    assert Redaction().value([10**5000], {"1234"}) == ["[16610 bits]"], "nobody can read such a number"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"redact_fields": [1]}, "Fields to redact must be names"),
        ({"redact_types": SecretStr}, "Types to redact must be classes"),
        ({"redact_types": ["SecretStr"]}, "Types to redact must be classes"),
        ({"max_chars": -1}, "max_chars must be an int"),
        ({"clock": 5}, "clock must be a function"),
        ({"sink": "audit.jsonl"}, r"takes an audit sink, for example JsonLinesSink\(path\)"),
        ({"sink": JsonLinesSink}, "takes an audit sink"),
    ],
)
def test_bad_settings(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        AuditAdvisor(**{"sink": ListSink(), **settings})


async def test_values_are_opt_in_redacted_by_type_and_cut(run: Any) -> None:
    sink = ListSink()

    @tool
    async def account(name: str) -> list[Account]:
        """Find."""
        return [Account(name, "DE00 1234")]

    async def ask(**settings: Any) -> list[AuditRecord]:
        sink.records.clear()
        chat = client(sink, [ToolCall("account", {"name": "x" * 50})], "y" * 50, **settings)
        await run(chat, "z" * 50, tools=[account])
        return sink.records

    for record in await ask():
        assert not record.keys() & {"arguments", "result", "input", "output"}
    call, turn = await ask(values=True, redact_types=[Account], max_chars=20)
    assert call["arguments"] == '{"name":"xxxxxxxxxxx[cut: 61 characters]'
    assert call["result"] == '["[redacted: Account[cut: 23 characters]'
    assert (turn["input"], turn["output"]) == ("z" * 20 + "[cut: 50 characters]", "y" * 20 + "[cut: 50 characters]")


# Sinks that fail, and required audits --------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
async def test_a_failing_sink_never_fails_the_call(run: Any, waits: bool, caplog: pytest.LogCaptureFixture) -> None:
    sink = ListSink("*", waits=waits)
    advisor = AuditAdvisor(sink)
    model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2})], "3", "again", "well"])
    chat = ChatClient(model, tools=[add], advisors=[advisor])
    assert (await run(chat, "Go")).text == "3"
    assert (await run(chat, "Go")).text == "again"
    assert [r.levelno for r in caplog.records if "go on unrecorded" in r.message] == [logging.ERROR]
    sink.failing.clear()
    await run(chat, "Go")
    assert [r["lost_before"] for r in sink.records] == [3]


@pytest.mark.parametrize("waits", [False, True])
async def test_required_writes_before_and_after(run: Any, waits: bool) -> None:
    sink = ListSink(waits=waits)
    seen: list[list[str]] = []

    @tool
    async def look() -> str:
        """Look at the records."""
        seen.append(list(sink.kinds))
        return ""

    def model_step(request: Any) -> Any:
        seen.append(list(sink.kinds))
        return [ToolCall("look", {})]

    chat = client(sink, model_step, "done", required=True)
    await run(chat, "Go", tools=[look])
    assert seen == [["turn_intent"], ["turn_intent", "tool_intent"]]
    assert sink.kinds == ["turn_intent", "tool_intent", "tool", "turn"]
    assert sink.durable == [True] * 4
    intent, outcome = sink.records[1:3]
    assert all(intent[name] == outcome[name] for name in ("turn", "call", "arguments_hash", "tool"))


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("failing", "model_calls", "tool_runs"),
    [("turn_intent", 0, 0), ("tool_intent", 1, 0), ("tool", 1, 1), ("turn", 2, 1)],
)
async def test_required_runs_nothing_unrecorded(
    run: Any, failing: str, model_calls: int, tool_runs: int, waits: bool
) -> None:
    sink = ListSink(failing, waits=waits)
    chat = client(sink, [ToolCall("add", {"a": 1, "b": 2})], "3", required=True)
    with pytest.raises(AuditError, match="could not be written: OSError") as raised:
        await run(chat, "Go")
    assert isinstance(raised.value.__cause__, OSError)
    assert len(chat.model.requests) == model_calls  # type: ignore[attr-defined]
    assert len(ran) == tool_runs


@pytest.mark.parametrize("by_task", [False, True])
async def test_every_intent_has_its_outcome_whenever_it_is_cancelled(run: Any, by_task: bool) -> None:
    """An intent without one means that the process has died."""
    if by_task and in_trio():
        pytest.skip("trio has no cancellation of tasks")
    for steps in range(40):
        sink = ListSink(waits=True)
        chat = client(sink, [ToolCall("add", {"a": 1, "b": 2})] * 2, "3", required=True)
        scope = anyio.CancelScope()

        async def turn() -> None:
            with scope:  # noqa: B023
                await type(run)(run.mode)(chat, "Go")  # noqa: B023

        if by_task:
            task = asyncio.create_task(turn())
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(turn)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        open_calls = [r.get("call") for r in sink.records if r["kind"].endswith("_intent")]
        for record in sink.records:
            if not record["kind"].endswith("_intent"):
                open_calls.remove(record.get("call"))
        assert open_calls == [], (steps, sink.kinds)


async def test_required_is_on_disk_before_the_call(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    synced: list[int] = []
    real = os.fsync
    sink = JsonLinesSink(tmp_path / "audit.jsonl")
    monkeypatch.setattr(os, "fsync", lambda fd: (real(fd), synced.append(os.fstat(fd).st_size)))
    sizes: list[tuple[int, int]] = []

    @tool
    async def look() -> str:
        """Look."""
        sizes.append((synced[-1], sink.path.stat().st_size))
        return ""

    await run(client(sink, [ToolCall("look", {})], "done", required=True), "Go", tools=[look])
    assert sizes[0][0] == sizes[0][1]
    assert len(synced) == 4
    assert verify(sink.path).ok


# The other sinks -----------------------------------------------------------------------------------------------------


async def test_logging_sink(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "my.audit")
    await run(client(LoggingSink("my.audit"), [ToolCall("add", {"a": 1, "b": 2})], "3"), "Go")
    logged = [r for r in caplog.records if r.name == "my.audit"]
    assert [json.loads(r.message)["kind"] for r in logged] == ["tool", "turn"]
    assert logged[0].audit["tool"] == "add"  # type: ignore[attr-defined]


async def test_sqlite_sink(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    sinks = [SqliteSink(path), SqliteSink(path, key=b"k" * 32)]

    async def ask(sink: SqliteSink, number: int) -> None:
        chat = client(sink, [ToolCall("add", {"a": 1, "b": 2})], "3", required=True)
        own_run = type(run)(run.mode)
        await own_run(chat, "Go", conversation_id=f"c{number}")

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(ask, sinks[number % 2], number)
    database = sqlite3.connect(path)
    rows = database.execute("SELECT conversation, kind, outcome, record FROM audit ORDER BY seq").fetchall()
    database.close()
    assert len(rows) == 40
    for number in range(10):
        own = [row for row in rows if row[0] == f"c{number}"]
        assert [row[1] for row in own] == ["turn_intent", "tool_intent", "tool", "turn"]
        assert json.loads(own[2][3])["outcome"] == own[2][2] == "ok"
    assert len({json.loads(row[3])["arguments_hash"] for row in rows if row[1] == "tool"}) == 2
    for sink in sinks:
        sink.close()
    path.write_bytes(b"no database at all, " * 100)
    from advisorchain import ConfigurationError

    with pytest.raises(ConfigurationError, match="Cannot open the audit database"):
        SqliteSink(path)


async def test_a_locked_sqlite_file(run: Any, tmp_path: Path) -> None:
    sink = SqliteSink(tmp_path / "audit.db", busy_seconds=0.05)
    other = sqlite3.connect(sink.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert (await run(client(sink, "Hi"), "Go")).text == "Hi"
    with pytest.raises(AuditError, match="locked"):
        await run(client(sink, "Hi", required=True), "Go")
    other.execute("ROLLBACK")
    other.close()
    await run(client(sink, "Hi", required=True), "Go")


async def test_a_turn_record_has_the_most_attempts_of_all_its_model_calls(run: Any) -> None:
    async def at_once(seconds: float) -> None:
        await anyio.lowlevel.checkpoint()

    busy = ModelError("busy", transient=True)
    retry = RetryAdvisor(model={"attempts": 3}, sleep=at_once)
    sink = ListSink()
    await run(client(sink, busy, [ToolCall("add", {"a": 1, "b": 2})], "3", extra=[retry]), "go")
    assert sink.records[-1]["attempts"] == 2  # the one of round 1, although the last call took one

    sink = ListSink()
    with pytest.raises(ModelError):
        await run(client(sink, busy, busy, busy, extra=[retry]), "go")
    assert sink.records[-1]["attempts"] == 3

    sink = ListSink()
    await run(client(sink, "fine", extra=[retry]), "go")
    assert "attempts" not in sink.records[-1]
