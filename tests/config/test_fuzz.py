"""Any file gives a client or a `ConfigurationError`, whatever its shape."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from advisorchain import ChatClient, ConfigurationError
from advisorchain.config.shape import LADDER, ChainTable, FileTable, ServerTable
from advisorchain.plugins import find, options_of
from advisorchain.plugins.built_in import BUILT_IN

NAMES = sorted({name for names in BUILT_IN.values() for name in names})
OPTIONS = sorted({
    option
    for group, names in BUILT_IN.items()
    for name in names
    for option in options_of(find(group, name)) or {}
})  # fmt: skip
REFERENCES = [
    "json:dumps", "json:JSONDecodeError", "math:pi", "os:environ", "advisorchain.memory:LastTurns",
    "advisorchain.models:KeywordModel", "no_such:thing", "json:", ":x", "a b:c", "math:sqrt",
]  # fmt: skip
SCALARS = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(REFERENCES),
    st.sampled_from(sorted(LADDER)),
    st.sampled_from(
        ["${FUZZ_SET}", "${FUZZ_NOT_SET}", "x ${FUZZ_SET}", "x.db", "openai:m", "keyword:x", "turn", "${}"]
    ),
    st.text("ab.\x00\n\"'é", max_size=5),
    st.integers(-3, 2**70),
    st.booleans(),
    st.floats(),
)
KEYS = st.sampled_from([*OPTIONS, "use", "enabled", "order", "name", "file"]) | st.text('ab.\n é"', max_size=3)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10
)
ENTRY = st.one_of(
    st.fixed_dictionaries({"use": st.sampled_from(NAMES)}, optional=dict.fromkeys(OPTIONS[:0], VALUES)).flatmap(
        lambda entry: st.dictionaries(st.sampled_from(OPTIONS), VALUES, max_size=3).map(lambda more: {**more, **entry})
    ),
    VALUES,
)
SERVER = st.dictionaries(st.sampled_from(sorted(ServerTable.model_fields)), VALUES, max_size=4)
CHAIN = st.fixed_dictionaries(
    {"model": st.one_of(st.just("keyword"), ENTRY)},
    optional={
        "advisors": st.lists(ENTRY, max_size=3),
        "tools": st.lists(ENTRY, max_size=2),
        "mcp": st.dictionaries(st.text("ab /", max_size=3), SERVER, max_size=2),
        "memory": ENTRY,
        "audit": ENTRY,
        "tool_loop": ENTRY,
        "options": st.dictionaries(KEYS, VALUES, max_size=2),
        **dict.fromkeys(("system", "mcp_servers", "telemetry", "return_direct", "name"), VALUES),
    },
)
FILES = st.one_of(
    CHAIN,
    st.tuples(CHAIN, st.dictionaries(st.sampled_from([*FileTable.model_fields, "x"]), VALUES, max_size=3)).map(
        lambda both: {**both[0], **both[1]}
    ),
    st.dictionaries(st.sampled_from([*ChainTable.model_fields, "chains", "plugins", "modell"]), VALUES, max_size=4),
)


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FUZZ_SET", "the-value-of-it")
    monkeypatch.delenv("FUZZ_NOT_SET", raising=False)


def outcome(folder: Path, text: str) -> str | None:
    """None for a client, else the error."""
    path = folder / "fuzz.toml"
    path.write_bytes(text.encode())
    try:
        client = ChatClient.from_config(path)
    except ConfigurationError as exc:
        return str(exc)
    client.close()
    return None


@given(FILES)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example({"model": "keyword", "advisors": [{"use": "retry", "model": 10**400}]})
@example({"model": {"use": "keyword", "name": {"use": {"use": 3}}}})
@example({"model": "keyword", "advisors": [{"use": "memory", "store": {"use": "memory"}}]})
@example({"model": "keyword", "memory": {"use": "in_memory", "store": "in_memory"}})
def test_any_shape(folder: Path, data: dict[str, Any]) -> None:
    text = "\n".join(f"{toml(str(key))} = {toml(value)}" for key, value in data.items())
    try:
        tomllib.loads(text)
    except ValueError:  # an int of too many digits
        assert "this is no TOML" in (outcome(folder, text) or "")
        return
    told = outcome(folder, text)
    if told is not None:
        assert "fuzz.toml" in told and "the-value-of-it" not in told and "Traceback" not in told
        assert len(told.splitlines()) <= 22


@given(st.text(max_size=200) | st.text("[]{}=\".'\n#a1 \\", max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text(folder: Path, text: str) -> None:
    assert outcome(folder, text.encode("utf-8", "replace").decode()) is not None


@given(st.binary(max_size=100))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(folder: Path, data: bytes) -> None:
    path = folder / "bytes.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=re.escape(os.fspath(path))):
        ChatClient.from_config(path)
