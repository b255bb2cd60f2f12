"""How many input tokens tool search saves over whole tasks.

``uv run --with bpe-openai python tests/benchmarks/tool_search_tokens.py``; exit code 1 when it is less than must be.

The tasks are questions of the Berkeley function calling leaderboard that need two or more tools (of the half that
nothing was tuned on, see `tool_search_data`). A task's tools hide among others of the same data, 28 to 2,000 in all. A
script plays the model. Without search it calls the tools and answers: two model calls. With search it first searches
with the user's message, then by name for each tool that was not found, then calls the tools, then answers.

Counted are the input tokens of every model call of the task, search rounds included: every tool and every message as it
stands in a request to OpenAI, by the wheel `bpe-openai` (o200k_base). Every setting is the default, except
``threshold=0``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from statistics import mean
from typing import Any

from tool_search_data import bfcl

from advisorchain import AssistantMessage, ChatClient, ChatRequest, ChatResponse, Message, Tool, ToolCall, ToolMessage
from advisorchain.advisors import ToolSearchAdvisor
from advisorchain.tool_index.search_tool import NAME

SIZES = (28, 100, 300, 2000)
MUST = {28: 35, 100: 75, 300: 90, 2000: 98}
AIM = {28: 64, 100: 85, 300: 95, 2000: 99}
TASKS = 60


@dataclass(frozen=True)
class Task:
    """A question, and the names of the tools that it needs."""

    question: str
    needs: tuple[str, ...]


def corpus() -> tuple[dict[str, Tool], list[Task]]:
    """The tools in an order by hash, and the tasks."""
    data = bfcl()
    tools = {tool.name: tool for tool in data.tools if tool.name != NAME}  # the data has one of that name, too
    found = (Task(query.text, tuple(sorted(query.sets[0]))) for query in data.reported if "multiple" in query.id)
    tasks = [task for task in found if len(task.needs) > 1]
    return {name: tools[name] for name in sorted(tools, key=by_hash)}, tasks[:TASKS]


def by_hash(name: str) -> int:
    """Puts names in an order that says nothing."""
    return zlib.crc32(name.encode())


class Scripted:
    """Plays the model of one task, and counts the tokens that it reads."""

    name = "scripted"

    def __init__(self, task: Task, count: Any) -> None:
        self.task = task
        self.count = count
        self.tokens = 0
        self.calls = 0
        self.searches = 0
        self.found = 0

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Search, call, or answer."""
        self.calls += 1
        self.tokens += sum(map(self.count, as_sent(request)))
        needs = self.task.needs
        if any(isinstance(message, ToolMessage) and message.name in needs for message in request.messages):
            return ChatResponse(AssistantMessage(content="Here you are: 42."))
        missing = [name for name in needs if name not in request.tools]
        if missing and self.searches < 2:
            queries = [self.task.question] if not self.searches else [words(name) for name in missing]
            self.searches += 1
            calls = tuple(ToolCall(NAME, {"query": query}) for query in queries)
            return ChatResponse(AssistantMessage(tool_calls=calls))
        self.found = len(needs) - len(missing)
        return ChatResponse(AssistantMessage(tool_calls=tuple(ToolCall(name, {"value": 42}) for name in needs)))


def words(name: str) -> str:
    """A tool's name as somebody would say it."""
    return re.sub(r"[._]+|(?<=[a-z])(?=[A-Z])", " ", name)


def as_sent(request: ChatRequest) -> Iterator[str]:
    """The messages and tools of the request as a provider's adapter would send them."""
    for message in request.messages:
        yield json.dumps(message_sent(message), ensure_ascii=False)
    for tool in request.tools:
        function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)}
        yield json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def message_sent(message: Message) -> dict[str, Any]:
    """One message of it."""
    sent: dict[str, Any] = {"role": message.role, "content": message.text}
    if isinstance(message, AssistantMessage) and message.tool_calls:
        sent["tool_calls"] = [
            {"id": "call_1", "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
            for c in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        sent["tool_call_id"] = "call_1"
    return sent


@dataclass
class Measured:
    """What was measured with so many tools, as means over the tasks."""

    tools: int
    plain: float
    searched: float
    calls: float
    found: float

    @property
    def saved(self) -> float:
        """Percent of the tokens."""
        return 100 * (1 - self.searched / self.plain)


async def measure(size: int, tools: dict[str, Tool], tasks: list[Task], count: Any) -> Measured:
    """Do every task with and without search."""
    advisor = ToolSearchAdvisor(threshold=0, max_indexes=2)
    plain: list[Scripted] = []
    searched: list[Scripted] = []
    for task in tasks:
        others = [tool for name, tool in tools.items() if name not in task.needs][: size - len(task.needs)]
        chosen = sorted(
            [*others, *(tools[name] for name in task.needs)], key=lambda tool: zlib.crc32(tool.name.encode())
        )
        for advisors, models in (([], plain), ([advisor], searched)):
            model = Scripted(task, count)
            models.append(model)
            await ChatClient(model, tools=chosen, advisors=advisors).call(task.question)
    needed = sum(len(task.needs) for task in tasks)
    return Measured(
        size,
        mean(model.tokens for model in plain),
        mean(model.tokens for model in searched),
        mean(model.calls for model in searched),
        100 * sum(model.found for model in searched) / needed,
    )


def counter() -> Any:
    """Counts the tokens of a text."""
    if find_spec("bpe_openai") is None:
        sys.exit("Run it with the tokenizer: uv run --with bpe-openai python tests/benchmarks/tool_search_tokens.py")
    encoding: Any = import_module("bpe_openai").get_encoding("o200k_base")
    return lru_cache(maxsize=None)(lambda text: len(encoding.encode_ordinary(text)))


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit code: 1 when less is saved than must be."""
    parser = argparse.ArgumentParser(description="Input tokens of whole tasks, with and without tool search.")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    sizes = parser.parse_args(arguments).sizes
    count = counter()
    tools, tasks = corpus()
    print(f"{len(tasks)} tasks, {len(tools)} tools; means per task")
    print("tools  without   with   saved  must  aim  model calls  found by search")
    failed = False
    for size in sizes:
        row = asyncio.run(measure(size, tools, tasks, count))
        must, aim = MUST.get(size, 0), AIM.get(size, 0)
        failed = failed or row.saved < must
        print(
            f"{size:5d}  {row.plain:7.0f}  {row.searched:5.0f}  {row.saved:4.1f} %  {must:3d}   {aim:3d}  "
            f"{row.calls:11.2f}  {row.found:13.1f} %"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
