"""The pages for people who come from elsewhere: every name of ours in their tables exists, with its arguments."""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import re
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pydantic
import pytest

import advisorchain
from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    ChatStream,
    Context,
    Tool,
    ToolContext,
    ToolExecution,
    ToolInvocation,
    ToolResult,
)
from advisorchain.advisors import LoopState
from advisorchain.client import CallSettings
from advisorchain.mcp import McpServer, mcp_server
from advisorchain.memory import MemoryStore

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "migration-spring-ai.md", DOCS / "migration-langchain.md"]

PACKAGES = (
    "",
    ".advisors",
    ".audit",
    ".mcp",
    ".memory",
    ".models",
    ".shared_state",
    ".telemetry",
    ".testing",
    ".tool_index",
    ".tools",
)
PLUGINS = (
    "advisorchain_anthropic",
    "advisorchain_openai",
    "advisorchain_postgres",
    "advisorchain_redis",
    "advisorchain_vector",
)


def _public() -> dict[str, Any]:
    names: dict[str, Any] = {"Field": pydantic.Field, "Literal": typing.Literal, "Annotated": typing.Annotated}
    for package in (*(f"advisorchain{name}" for name in PACKAGES), *PLUGINS):
        module = import_module(package)
        listed = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
        names.update((name, getattr(module, name)) for name in listed)
    return names


PUBLIC = _public()

# What a name in lower case stands for, in code that is no whole program.
VARIABLES: dict[str, Any] = {
    "client": ChatClient, "request": ChatRequest, "response": ChatResponse, "message": AssistantMessage,
    "stream": ChatStream, "context": Context, "tool": Tool, "invocation": ToolInvocation, "result": ToolResult,
    "execution": ToolExecution, "state": LoopState, "options": ChatOptions, "store": MemoryStore,
    "tool_context": ToolContext,
}  # fmt: skip
PLACEHOLDERS = {"Model", "ErrorType", "KEY", "Answer"}  # what the reader puts in
NO_CODE = {"OPENAI_API_KEY", "Retry-After", "advisorchain-openai", "advisorchain-vector", "advisorchain.tool_index"}


def members(kind: Any) -> set[str]:
    found = set(dir(kind)) | set(getattr(kind, "model_fields", ()))
    for base in getattr(kind, "__mro__", ()):
        found |= set(getattr(base, "__annotations__", ())) | set(getattr(base, "__slots__", ()))
    if isinstance(kind, type):
        found |= set(inspect.signature(kind.__init__).parameters)
    return found


def parameters(function: Any) -> set[str]:
    """The names of a callable's arguments; where it takes ``**settings``, those that the settings may have."""
    if isinstance(function, type) and issubclass(function, pydantic.BaseModel):
        return set(function.model_fields)
    try:
        listed = inspect.signature(function).parameters
    except ValueError:  # an exception class without an __init__ of its own
        return set()
    found = set(listed) - {"self"}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in listed.values()):
        module = getattr(function, "__module__", "")
        if module.startswith("advisorchain.mcp"):
            found |= set(McpServer.__annotations__) | set(inspect.signature(mcp_server).parameters)
        elif module.startswith("advisorchain.tools"):
            found |= members(Tool)
        elif function is ChatOptions.replace:
            found |= set(ChatOptions.model_fields)
        else:
            found |= set(CallSettings.__annotations__)
    return found


def _keywords() -> set[str]:
    found = set(CallSettings.__annotations__) | set(McpServer.__annotations__)
    for value in PUBLIC.values():
        if not getattr(value, "__module__", "").startswith("advisorchain"):
            continue
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            found |= parameters(value).union(*(parameters(method) for name, method in methods if name[0] != "_"))
        elif inspect.isfunction(value):
            found |= parameters(value)
    return found


KEYWORDS = _keywords()
ATTRIBUTES = set().union(*map(members, VARIABLES.values()), members(advisorchain.Ledger), members(advisorchain.Advisor))


def problems(code: str) -> Iterator[str]:
    """What is wrong with the names in a piece of code: an expression, ``@decorator(...)``, or ``argument=value``."""
    if code in NO_CODE or code.startswith("advisorchain "):
        return
    source = code.removeprefix("@")
    if re.match(r"\w+=", source):
        source = f"dict({source}{'...' if source.endswith('=') else ''})"
    try:
        tree = compile(source, code, "eval", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        if not keyword.iskeyword(code):
            yield f"{code}: no Python"
        return
    assert isinstance(tree, ast.Expression)
    if isinstance(tree.body, ast.Name) and tree.body.id.islower():
        if tree.body.id not in {*ATTRIBUTES, *KEYWORDS, "call_next", *PUBLIC, *dir(builtins)}:
            yield f"{code}: neither an attribute nor an argument"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not node.id.islower() and node.id not in {*PLACEHOLDERS, *dir(builtins)}:
            if node.id not in PUBLIC:
                yield f"{code}: there is no {node.id}"
        elif isinstance(node, ast.Attribute):
            kind = resolved(node.value)
            if node.attr not in (ATTRIBUTES if kind is None else members(kind)):
                yield f"{code}: {ast.unparse(node.value)} has no {node.attr}"
        elif isinstance(node, ast.Call):
            function = resolved(node.func, called=True)
            known = KEYWORDS if function is None or function is dict else parameters(function)
            for argument in node.keywords:
                if argument.arg not in known:
                    yield f"{code}: {ast.unparse(node.func)} has no argument {argument.arg}"


def resolved(node: ast.expr, called: bool = False) -> Any:
    """The class or function that an expression names, or None."""
    if isinstance(node, ast.Name):
        if not called and node.id in VARIABLES:
            return VARIABLES[node.id]
        return PUBLIC.get(node.id, VARIABLES.get(node.id, getattr(builtins, node.id, None)))
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value)
        value = None if owner is None else getattr(owner, node.attr, None)
        return value if isinstance(value, types.FunctionType | type) else None
    return None


def rows(page: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of a page's tables about us: from the column that says so in its head on."""
    start: int | None = None
    head = True
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("|"):
            head, start = True, None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head:
            ours = [index for index, cell in enumerate(cells) if re.search(r"\bhere\b|\binstead\b", cell)]
            assert ours, f"{page.name}:{number}: no column of this table is about us"
            start, head = ours[0], False
            width = len(cells)
        elif not set("".join(cells)) <= set("-: "):
            assert len(cells) == width, f"{page.name}:{number}: {len(cells)} cells under {width} heads"
            yield number, cells[start:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_of_ours_exists(page: Path) -> None:
    checked = 0
    wrong: list[str] = []
    for number, cells in rows(page):
        for code in re.findall(r"`([^`]+)`", " ".join(cells)):
            checked += 1
            wrong += [f"{page.name}:{number}: {problem}" for problem in problems(code)]
    assert not wrong, "\n".join(wrong)
    assert checked > 80


@pytest.mark.parametrize(
    "code",
    [
        "ChatClint(model)",
        "ChatClient(model, advisers=[...])",
        "ToolSearchAdvisor(max_result=8)",
        "McpServer.https(url)",
        "McpServer.http(url, call_time=60)",
        "Order.MEMORIES",
        "request.steering_wheel(message)",
        "request.context.ledgers",
        "tols=",
        "after_rounds",
        "@tool(direct=True)",
        "ToolCallingAdvisor.before_rounds",
        "options of a call",
    ],
)
def test_a_wrong_name_is_found(code: str) -> None:
    assert list(problems(code))
