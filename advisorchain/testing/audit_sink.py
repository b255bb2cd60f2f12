"""`check_audit_sink`: the contract that every audit sink keeps."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.to_thread

from ..audit import AuditRecord, AuditSink
from ..runtime import new_id
from ..shield import in_trio
from .contract import check_rule

MakeSink = Callable[[], AuditSink | Awaitable[AuditSink]]
Read = Callable[[], Sequence[AuditRecord] | Awaitable[Sequence[AuditRecord]]]

RECORDS = 50
"""How many records each writer writes."""
TASKS = 8
"""How many tasks write at once."""
THREADS = 4
"""How many threads, each with an event loop of its own, write at once."""


async def check_audit_sink(make_sink: MakeSink, read: Read, *, broken: MakeSink | None = None) -> None:
    """Check an audit sink against the contract of `AuditSink`, on the running event loop.

    Args:
        make_sink: gives a sink; called once for each check, may be async. The sinks may all keep their records in one
            place, which need not be empty. A sink with ``aclose()`` or ``close()`` is closed after its check.
        read: gives the records kept so far, in order; may be async. They may have further fields.
        broken: gives a sink that cannot keep a record at the moment (its file is locked, its server is away); None:
            whether failures are raised is not checked.

    Raises:
        AssertionError: says which rule is broken, what was expected, and what was found.
    """
    for rule in _CHECKS:
        await check_rule(rule, make_sink, _Place(read))
    if broken is not None:
        await check_rule(_raises, broken, _Place(read))


class _Place:
    """What a check has written; its records are known by their turn."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.turn = new_id()

    def record(self, number: int, **fields: Any) -> AuditRecord:
        return {"kind": "tool", "time": 1_784_000_000.25 + number, "turn": self.turn, "number": number, **fields}

    async def kept(self) -> list[AuditRecord]:
        found = self._read()
        records = await found if inspect.isawaitable(found) else found
        return [record for record in records if record.get("turn") == self.turn]


def _that(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


async def _write(sink: AuditSink, record: AuditRecord, **settings: Any) -> None:
    done = sink.write(record, **settings)
    if done is not None:
        _that(inspect.isawaitable(done), f"write gives {done!r}, not None or an awaitable.")
        await done


def _same(found: AuditRecord, written: AuditRecord) -> None:
    for name, value in written.items():
        kept = found.get(name, "nothing")
        _that(kept == value, f"record {written['number']} has {kept!r} for {name!r}, not {value!r}.")


async def _in_order(sink: AuditSink, place: _Place) -> None:
    """Every record of one writer is kept once, whole, and in order."""
    written = [
        place.record(
            number,
            conversation="c 好 🙂" if number % 2 else None,
            tool="look",
            outcome="ok",
            seconds=0.125,
            advisors=["audit", "retry"],
            arguments={"text": 'tab\t, quote ", line\nend, \u2028', "list": [1, -2.5, None, True, {"deep": {}}]},
        )
        for number in range(RECORDS)
    ]
    for record in written:
        await _write(sink, dict(record))
    kept = await place.kept()
    numbers = [record.get("number") for record in kept]
    _that(numbers == list(range(RECORDS)), f"written were the records 0 to {RECORDS - 1}, kept are {numbers}.")
    for found, record in zip(kept, written, strict=True):
        _same(found, record)


async def _concurrent(sink: AuditSink, place: _Place) -> None:
    """Tasks and threads that write at once lose nothing, double nothing, and mix nothing."""
    written = {
        f"{kind} {at}": [
            place.record(number, writer=f"{kind} {at}", text=f"{at}" * (number * 37)) for number in numbers
        ]
        for kind, count, numbers in (("task", TASKS, range(RECORDS)), ("thread", THREADS, range(RECORDS)))
        for at in range(count)
    }

    async def write(writer: str) -> None:
        for record in written[writer]:
            await _write(sink, dict(record))

    backend = "trio" if in_trio() else "asyncio"

    async def write_in_thread(writer: str) -> None:
        await anyio.to_thread.run_sync(lambda: anyio.run(write, writer, backend=backend))

    async with anyio.create_task_group() as group:
        for writer in written:
            group.start_soon(write_in_thread if writer.startswith("thread") else write, writer)
    kept = await place.kept()
    for writer, records in written.items():
        own = [record for record in kept if record.get("writer") == writer]
        numbers = [record.get("number") for record in own]
        _that(numbers == list(range(RECORDS)), f"{writer} wrote the records 0 to {RECORDS - 1}, kept are {numbers}.")
        for found, record in zip(own, records, strict=True):
            _same(found, record)
    total = sum(map(len, written.values()))
    _that(len(kept) == total, f"{len(kept)} records are kept, not {total}.")


class _Unknown:
    """An object that JSON does not know."""


_ODD: tuple[dict[str, Any], ...] = (
    {"conversation": "half a character: \ud800", "tool": "\udfff", "error": "a\ud83d"},
    {"text": "x" * 1_000_000},
    {"numbers": [float("nan"), float("inf"), -float("inf"), 10**40, -(2**70), 5e-324]},
    {"value": _Unknown(), "list": [_Unknown(), _Unknown], "error": ValueError("no")},
    {"bytes": b"\xff\x00", "set": {1}, "tuple": (1, (2,)), "keys": {1: "a", None: "b", (1, 2): "c"}},
    {"text": "NUL \x00, escape \x1b, 好, 🙂, \u2028, e\u0301", "": "a field without a name"},
    {"deep": [[[[[[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]]]]]},
    {"conversation": _Unknown(), "tool": ["a", "list"], "outcome": 10**40, "time": "yesterday"},
)


async def _odd(sink: AuditSink, place: _Place) -> None:
    """Records of any content are kept: lone surrogates, long texts, NaN, objects that JSON does not know."""
    for number, fields in enumerate(_ODD):
        try:
            await _write(sink, place.record(number, **fields))
        except Exception as exc:
            raise AssertionError(f"A record with the fields {list(fields)} raised {exc!r}.") from exc
    numbers = [record.get("number") for record in await place.kept()]
    _that(numbers == list(range(len(_ODD))), f"written were the records 0 to {len(_ODD) - 1}, kept are {numbers}.")


async def _unchanged(sink: AuditSink, place: _Place) -> None:
    """The record given is not changed, and is kept as it was then."""
    record = place.record(0, arguments={"list": [1, 2], "deep": {"a": None}})
    before = copy.deepcopy(record)
    await _write(sink, record)
    _that(record == before, f"write has changed the record to {record!r}.")
    record["arguments"]["list"].append(3)
    record["more"] = True
    kept = await place.kept()
    _that(len(kept) == 1, f"{len(kept)} records are kept, not 1.")
    _same(kept[0], before)
    _that("more" not in kept[0], "a field that the record got after the write is kept.")


async def _durable(sink: AuditSink, place: _Place) -> None:
    """durable=True is accepted, and the record is kept when the write is done."""
    for number in range(4):
        await _write(sink, place.record(number), durable=number % 2 == 0)
        numbers = [record.get("number") for record in await place.kept()]
        _that(numbers == list(range(number + 1)), f"after record {number} was written, kept are {numbers}.")


async def _digest(sink: AuditSink, place: _Place) -> None:
    """digest gives a short text that stands for the data and does not show it."""
    data = [b"", b"a", b"b", b'{"password":"hunter2"}', bytes(range(256)), b"x" * 1_000_000]
    digests = [sink.digest(each) for each in data]
    for each, digest in zip(data, digests, strict=True):
        _that(isinstance(digest, str) and 8 <= len(digest) <= 200, f"{digest!r} is no text of 8 to 200 characters.")
        _that(len(each) < 8 or each.decode("latin-1") not in digest, "it shows the data.")
        _that(sink.digest(each) == digest, "the same data has two digests.")
    _that("hunter2" not in digests[3], "it shows the data.")
    _that(len(set(digests)) == len(data), "different data has the same digest.")


async def _raises(sink: AuditSink, place: _Place) -> None:
    """What cannot be kept raises."""
    for durable in (False, True):
        try:
            await _write(sink, place.record(0), durable=durable)
        except Exception:
            continue
        raise AssertionError(f"A write to the broken sink raised nothing (durable={durable}).")


_CHECKS = (_in_order, _concurrent, _odd, _unchanged, _durable, _digest)
