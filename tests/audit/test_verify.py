"""What `verify` finds, and what it cannot find without a key or a head."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisorchain import AuditError, ConfigurationError
from advisorchain.audit import JsonLinesSink, head, records, verification, verify
from advisorchain.audit.record_chain import Digest

KEY = b"0123456789abcdef0123456789abcdef"
RECORDS = [{"kind": "test", "number": number, "text": 'päper "x" \\ \n' * number} for number in range(6)]


def made(path: Path, key: bytes | None = None, *, rotate: int | None = None) -> list[bytes]:
    sink = JsonLinesSink(path, key=key, rotate_bytes=rotate)
    for record in RECORDS:
        sink.write(record)
    sink.close()
    return path.read_bytes().splitlines(keepends=True)


def kind_of(path: Path, key: bytes | None = None, expect: str | None = None) -> str:
    problem = verify(path, key=key, expect=expect).problem
    assert problem is not None
    return problem.kind


@pytest.mark.parametrize("key", [None, KEY])
def test_every_single_byte_counts(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / "audit.jsonl"
    made(path, key)
    whole = path.read_bytes()
    missed = []
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 0x20  # the other case, for a letter
        path.write_bytes(changed)
        if verify(path, key=key).ok:
            missed.append(position)
    assert missed == []


@given(position=st.integers(0, 10_000), value=st.integers(0, 255), keyed=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_byte_changed_into_any_other_is_found(tmp_path: Path, position: int, value: int, keyed: bool) -> None:
    path, key = tmp_path / f"audit-{keyed}.jsonl", KEY if keyed else None
    original = tmp_path / f"original-{keyed}.jsonl"
    if not original.exists():
        made(original, key)
    data = bytearray(original.read_bytes())
    position %= len(data)
    same = data[position] == value
    data[position] = value
    path.write_bytes(data)
    assert verify(path, key=key).ok is same


def test_the_first_changed_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    lines = made(path)
    lines[3] = lines[3].replace(b'"number":2', b'"number":9')
    lines[5] = lines[5].replace(b'"number":4', b'"number":9')
    path.write_bytes(b"".join(lines))
    report = verify(path)
    assert report.problem is not None
    assert (report.problem.kind, report.problem.line, report.count) == ("changed", 4, 3)
    assert report.problem.message == "audit.jsonl:4: record 4 was changed."


def test_removed_moved_and_repeated_records(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    lines = made(path)
    for changed, kind, message in [
        (lines[:2] + lines[3:], "removed", "3: record 3 was removed before record 4."),
        (lines[:2] + lines[5:], "removed", "3: records 3 to 5 were removed before record 6."),
        (lines[2:], "removed", "1: records 1 to 2 were removed before record 3."),
        ([*lines[:2], lines[3], lines[2], *lines[4:]], "reordered", "3: record 4 stands before record 3."),
        ([*lines[:4], lines[1], *lines[4:]], "repeated", "5: record 2 stands here again, after record 4."),
        ([*lines[:4], b"\n", *lines[4:]], "changed", "5: this is no record, so the one after 4 was changed."),
        (
            [*lines, b"{}\n"],
            "torn",
            "8: the last line is incomplete: the writer crashed, or the line was changed or cut.",
        ),
    ]:
        path.write_bytes(b"".join(changed))
        problem = verify(path).problem
        assert problem is not None
        assert (problem.kind, problem.message) == (kind, f"audit.jsonl:{message}")


def test_cuts_are_found_with_a_head_only(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    lines = made(path)
    kept = head(path)
    assert re.fullmatch(r"7:[0-9a-f]{64}", kept)
    assert verify(path, expect=kept).ok
    path.write_bytes(b"".join(lines[:-2]))
    assert verify(path).ok, "nothing in the file tells"
    assert kind_of(path, expect=kept) == "cut"
    path.write_bytes(b"")
    assert verify(path).ok
    assert kind_of(path, expect=kept) == "cut"
    path.unlink()
    with pytest.raises(AuditError, match="Cannot read the audit file"):
        verify(path, expect=kept)
    JsonLinesSink(path).write({"kind": "test"})
    assert kind_of(path, expect=kept) == "cut"


def test_an_older_head_still_holds_when_the_file_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    made(path)
    kept = head(path)
    made(path)
    assert verify(path, expect=kept).ok


def resealed(lines: list[bytes], digest: Digest) -> bytes:
    """What a forger makes: the chain computed anew."""
    done, prev = [], "0" * 64
    for line in lines:
        sealed = re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"%s"' % prev.encode(), line[: line.rindex(b',"hash":')])
        prev = digest(sealed)
        done.append(b'%s,"hash":"%s"}\n' % (sealed, prev.encode()))
    return b"".join(done)


def test_a_file_rewritten_as_a_whole(tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    lines = made(plain)
    kept = head(plain)
    lines[3] = lines[3].replace(b'"number":2', b'"number":9')
    plain.write_bytes(resealed(lines, Digest(None)))
    assert verify(plain).ok, "without a key anybody can compute the chain"
    assert kind_of(plain, expect=kept) == "rewritten"

    keyed = tmp_path / "keyed.jsonl"
    lines = made(keyed, KEY)
    lines[3] = lines[3].replace(b'"number":2', b'"number":9')
    keyed.write_bytes(resealed(lines, Digest(None)))
    assert kind_of(keyed, KEY) == "changed"
    unkeyed = [re.sub(rb'"key_id":"\w+"', b'"key_id":null', line) for line in lines]
    keyed.write_bytes(resealed(unkeyed, Digest(None)))
    assert kind_of(keyed, KEY) == "key"


def test_the_key_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDIT_KEY", KEY.decode())
    path = tmp_path / "audit.jsonl"
    JsonLinesSink(path, key="AUDIT_KEY").write({"kind": "test"})
    assert verify(path, key="AUDIT_KEY").ok
    assert verify(path, key="AUDIT_KEY").keyed
    assert kind_of(path) == "key"
    assert kind_of(path, KEY[::-1]) == "key"
    assert KEY not in path.read_bytes()
    with pytest.raises(ConfigurationError, match="'NOT_SET'"):
        verify(path, key="NOT_SET")


def test_a_head_in_a_rotated_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    JsonLinesSink(path).write({"kind": "test"})
    early = head(path)
    made(path, rotate=900)
    report = verify(path, expect=early)
    assert report.ok, report.problem
    assert len(report.files) > 2
    Path(report.files[0]).unlink()
    assert verify(path).ok
    assert kind_of(path, expect=early) == "missing"


def forged(path: Path, *records: dict[str, object] | bytes) -> None:
    """A file whose hashes are right, as anybody can make one without a key."""
    previous, data = "0" * 64, b""
    for seq, record in enumerate(records, 1):
        body = record if isinstance(record, bytes) else json.dumps(record).encode()
        sealed = b'{"seq":%d,"prev":"%s",%s' % (seq, previous.encode(), body[1:-1])
        previous = Digest(None)(sealed)
        data += b'%s,"hash":"%s"}\n' % (sealed, previous.encode())
    path.write_bytes(data)


START = {"kind": "start", "format": "advisorchain-audit-1", "algorithm": "sha256", "key_id": None, "number": 1}
DEEP = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.mark.parametrize(
    "records_",
    [
        *([{**START, "previous": previous}] for previous in (
            {}, [1], "x", {"file": ""}, {"file": "."}, {"file": "..", "count": 1, "hash": "x"},
            {"file": "x" * 5000, "count": 1, "hash": "x"}, {"file": "a\0b", "count": 1, "hash": "x"},
            {"file": "audit.jsonl", "count": 3, "hash": "x"}, {"file": "f", "count": 1e999, "hash": [1]},
        )),
        [{**START, "number": "x"}],
        [{**START, "number": None}],
        [{**START, "kind": [1]}],
        [{**START, "key_id": [1]}],
        [START, {"kind": "x", "torn": [1]}],
        [START, DEEP],
        [DEEP],
        [b'{"a":nothing}'],
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_hostile_file_raises_nothing_unclear(tmp_path: Path, records_: list[dict[str, object] | bytes]) -> None:
    path = tmp_path / "audit.jsonl"
    forged(path, *records_)
    assert verify(path).count <= 3
    assert head(path).startswith(f"{len(records_)}:")
    assert len(list(records(path))) <= len(records_)
    with suppress(ConfigurationError):
        JsonLinesSink(path).write({"kind": "test"})


def test_a_large_file_that_is_none_of_ours_takes_no_longer_than_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"GET / HTTP/1.1 200\n" * 150_000)
    start = time.process_time()
    assert kind_of(path) == "torn"
    assert time.process_time() - start < 5


def test_a_file_that_is_rotated_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    sink = JsonLinesSink(path, rotate_bytes=900)
    for number in range(12):
        sink.write({"kind": "test", "number": number})
    real = verification._verify_file

    def rotating(file: Path, *args: Any) -> Any:
        for number in range(12):
            sink.write({"kind": "test", "number": number})
        return real(file, *args)

    before = head(path)
    monkeypatch.setattr(verification, "_verify_file", rotating)
    report = verify(path)
    assert report.problem is None
    assert report.head == before, "as it stood when it was asked for"
    monkeypatch.undo()
    assert verify(path).ok


def test_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    made(path)
    for expect in ("7", "7:abc", "x:" + "0" * 64, ""):
        with pytest.raises(ConfigurationError, match="must be COUNT:HASH"):
            verify(path, expect=expect)
    other = tmp_path / "other.txt"
    other.write_text(json.dumps({"seq": 1}) + "\n")
    assert not verify(other).ok
    with pytest.raises(AuditError, match="no complete record"):
        head(other)
    with pytest.raises(AuditError, match="Cannot read"):
        head(tmp_path)
    empty = tmp_path / "empty"
    empty.touch()
    assert head(empty) == "0:" + "0" * 64
    assert verify(empty, expect=head(empty)).ok
