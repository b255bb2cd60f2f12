"""The two corpora of `tool_search`: BFCL, from a wheel that is fetched into a cache, and the MCP servers' tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcp_corpus import reference_tools
from mcp_queries import QUERIES

from advisorchain import Tool

BFCL = "bfcl-eval==2026.3.23"
"""The Berkeley Function Calling Leaderboard (Apache-2.0): 2,070 tools, 2,501 queries and what answers them."""


class Query(NamedTuple):
    """What is asked, and which tools answer it. ``sets``: each of them alone will do."""

    id: str
    text: str
    sets: tuple[frozenset[str], ...]

    def recall(self, found: list[str]) -> float:
        """The part of the tools that were found; of several sets, that of the best."""
        return max(len(names & set(found)) / len(names) for names in self.sets)


class Corpus(NamedTuple):
    """Tools, and queries in two halves: tuned on, and reported."""

    tools: list[Tool]
    tuned: list[Query]
    reported: list[Query]


async def _nothing(arguments: dict[str, Any]) -> None:
    return None


def bfcl() -> Corpus:
    """BFCL; queries whose id has an even CRC-32 are those that were tuned on."""
    data = _installed() / "bfcl_eval" / "data"
    answers: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(data.glob("possible_answer/*.json")):
        answers.update((row["id"], row.get("ground_truth")) for row in _rows(path))
    definitions: dict[str, dict[str, Any]] = {}  # of tools with one name the first
    queries: list[Query] = []
    for path in sorted(data.glob("BFCL_v4_*.json")):
        if path.stem == "BFCL_v4_format_sensitivity":
            continue
        for row in _rows(path):
            for function in row.get("function", ()):
                definitions.setdefault(function["name"], function)
            if "multi_turn" in path.stem or not answers.get(row["id"]) or not row.get("function"):
                continue
            text = [message["content"] for turn in row["question"] for message in turn if message["role"] == "user"][-1]
            names = frozenset(name for call in answers[row["id"]] for name in call)
            queries.append(Query(row["id"], text, (names,)))
    for path in sorted(data.glob("unused_datasets/question/*.json")):
        for row in _rows(path):
            functions = row.get("function") or []
            for function in functions if isinstance(functions, list) else [functions]:
                definitions.setdefault(function["name"], function)
    for path in sorted(data.glob("multi_turn_func_doc/*.json")):
        for function in _rows(path):
            definitions.setdefault(f"{path.stem}.{function['name']}", function)
    tools = [
        Tool.from_schema(
            name,
            _nothing,
            description=function.get("description") or name,
            input_schema={"type": "object", "properties": _schema(function["parameters"]).get("properties", {})},
        )
        for name, function in definitions.items()
    ]
    halves: tuple[list[Query], list[Query]] = ([], [])
    for query in queries:
        halves[zlib.crc32(query.id.encode()) % 2].append(query)
    return Corpus(tools, *halves)


def mcp_servers() -> Corpus:
    """The tools of 16 reference servers of the Model Context Protocol; nothing was tuned on them."""
    tools = [
        Tool.from_schema(
            f"{row['server']}.{row['name']}",
            _nothing,
            description=row["description"] or row["name"],
            input_schema=row["input_schema"],
        )
        for row in reference_tools()
    ]
    queries = [
        Query(str(number), text, tuple(frozenset([name]) for name in names.split()))
        for number, (text, names) in enumerate(QUERIES)
    ]
    return Corpus(tools, [], queries)


def many(tools: list[Tool], count: int) -> list[Tool]:
    """So many tools: the same again and again under other names."""
    copies = (tool.replace(name=f"{tool.name}_v{copy}") for copy in range(2, 1_000) for tool in tools)
    return [*tools, *(next(copies) for _ in range(count - len(tools)))]


def _installed() -> Path:
    """Where the wheel's files are; installed once, without what it depends on, and nowhere near this project."""
    top = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = top / "advisorchain" / "benchmarks" / re.sub(r"\W+", "-", BFCL)
    if not (directory / "bfcl_eval").is_dir():
        uv = shutil.which("uv")
        if uv is None:
            raise SystemExit("uv is needed to fetch the data: pip install uv")
        subprocess.run([uv, "pip", "install", "--quiet", "--no-deps", "--target", str(directory), BFCL], check=True)
    return directory


def _rows(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


_TYPES = {
    "dict": "object", "HashMap": "object", "float": "number", "double": "number", "tuple": "array", "Array": "array",
    "ArrayList": "array", "String": "string", "char": "string", "Boolean": "boolean", "long": "integer",
}  # fmt: skip
_KNOWN = {"object", "number", "array", "string", "boolean", "integer"}


def _schema(schema: Any) -> Any:
    """As JSON schema: BFCL's types are those of Python, Java and JavaScript."""
    if isinstance(schema, list):
        return [_schema(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            made[key] = {name: _schema(part) for name, part in value.items()}
        elif key == "type" and isinstance(value, str):
            if _TYPES.get(value, value) in _KNOWN:
                made[key] = _TYPES.get(value, value)
        elif key != "required" or isinstance(value, list):
            made[key] = _schema(value)
    return made
