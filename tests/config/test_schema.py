"""The JSON Schema for editors agrees with what is loaded."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from advisorchain.config import json_schema

SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)

RIGHT = {
    "model": ['model = "keyword"', 'model = "openai:gpt-5-mini"', 'model = {use = "keyword", name = "k"}'],
    "system": ['system = "text"', 'system = {file = "a.md"}'],
    "tools": ['tools = ["a:b", {use = "c:d", more = 1}]', '[[tools]]\nuse = "x"\nenabled = "${X}"'],
    "mcp": [
        '[mcp.a]\ncommand = "x"\nargs = ["y"]\nenv = {K = "${V}"}\npin = "pins.json"\ncall_timeout = 5',
        '[mcp.a]\nurl = "${URL}"\nallow = "a*"\nprefix = "none"\nreturn_direct = true',
        'mcp_servers = "mcp.json"',
        'mcp_servers = ["a.json", "b.json"]',
    ],
    "advisors": [
        '[[advisors]]\nuse = "retry"\norder = "rate_limit"\nmodel = {attempts = 3}\n'
        "tool = false\ntools = {x = {attempts = 2}}",
        '[[advisors]]\nuse = "memory"\nstore = {use = "sqlite", path = "a"}\nwindow = {use = "last_turns", turns = 3}',
        '[[advisors]]\nuse = "tool_search"\nindex = {use = "hybrid", indexes = ["bm25", "regex"]}\nalways = ["a"]',
        '[[advisors]]\nuse = "acme_guard"\nanything = {a = 1}',
        '[[advisors]]\nuse = "budget"\nmax_cost = 1\nprices = {m = {input = 1, output = 2}}\nper = "turn"',
        'advisors = ["retry", "tool_cache"]',
    ],
    "short": [
        'memory = "in_memory"',
        '[memory]\nuse = "sqlite"\npath = "a"\ninside = true\nwindow = {use = "tokens", tokens = 100}',
        '[memory]\nuse = "redis"\nurl = "${REDIS_URL}"',
        '[audit]\nuse = "json_lines"\npath = "a"\nfsync = "always"\nvalues = true',
        "tool_loop = false",
        "tool_loop = {max_rounds = 3, max_seconds = false}",
        "telemetry = false",
        'telemetry = {capture_content = "span", redact = "app:hide", max_content_bytes = 10}',
        '[options]\ntemperature = 0.5\nstop = ["a"]\nextra = {a = 1}\nmax_tokens = "${N}"',
        "[return_direct]\na = true",
        'plugins = ["a"]\n[chains.x]\nmodel = "keyword"\nmcp = ["a"]\n'
        '[chains.y]\nmodel = "keyword"\n[chains.y.mcp.a]\ntrusted = true',
    ],
}
WRONG = [
    "modell = 1", "model = 3", 'system = {fil = "a"}', "tools = 3", '[mcp.a]\ncomand = "x"', "[[advisors]]\norder = 3",
    '[[advisors]]\nuse = "retry"\nmodle = {}', '[[advisors]]\nuse = "retry"\non_partial = "stop"',
    '[[advisors]]\nuse = "retry"\norder = 1000', '[[advisors]]\nuse = "tool_cache"\nttl = "long"',
    '[memory]\nuse = "sqlite"\npth = "a"', '[audit]\nuse = "json_lines"\npath = "a"\nfsync = "sometimes"',
    '[[advisors]]\nuse = "retry"\nmodel = {attemps = 3}', '[[advisors]]\nuse = "retry"\nmodel = {attempts = "3"}',
    '[[advisors]]\nuse = "retry"\ntools = {x = {attemps = 3}}', '[chains.x]\nsystem = "a"',
    '[[advisors]]\nuse = "budget"\nmax_calls = 1\nprices = {m = {inptu = 1}}',
    "tool_loop = 3", "telemetry = 3", "telemetry = {captur = 1}", "telemetry = {capture_content = true}",
    "[options]\ntemprature = 1", "[return_direct]\na = 3", "[chains.x]\nplugins = []", "plugins = 3",
]  # fmt: skip


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("text", [text for texts in RIGHT.values() for text in texts])
def test_what_is_right(text: str) -> None:
    errors = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(tomllib.loads(text))]
    assert errors == []


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_wrong_for_both(text: str, refused: Any) -> None:
    assert list(VALIDATOR.iter_errors(tomllib.loads(text)))
    head = "" if text.startswith("model ") else 'model = "keyword"\n'
    assert refused(head + text, "x" if "[chains.x]" in text else None).startswith("advisorchain.toml:")
