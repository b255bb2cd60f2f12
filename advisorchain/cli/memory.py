"""``advisorchain memory``: look into a store, and delete conversations from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import anyio
import typer
from rich.console import Console
from rich.text import Text

from ..memory import History, MemoryStore
from ..messages import AssistantMessage, Message, ToolMessage, dump_messages
from .choice import UsageProblem
from .display import one_line, open_console, print_wrapped, shortened
from .problems import one_line_errors
from .stores import open_store

T = TypeVar("T")

memory_app = typer.Typer(
    name="memory",
    help="Look into a memory store: list its conversations, show or delete one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        metavar="URL",
        help="sqlite:///memory.db, sqlite:////an/absolute/path.db, postgresql://… or redis://… (plugins).",
    ),
]
ConversationArgument = Annotated[str, typer.Argument(metavar="CONVERSATION", help="The conversation's id.")]

WIDTH = 100
"""Columns of what one tool call or result shows."""


def _in_store(url: str, work: Callable[[MemoryStore], Awaitable[T]]) -> T:
    store: Any = open_store(url)

    async def run() -> T:
        try:
            return await work(store)
        finally:
            if hasattr(store, "aclose"):
                await store.aclose()  # connections are closed by the loop that opened them
            elif hasattr(store, "close"):
                store.close()

    return anyio.run(run)


async def _existing(store: MemoryStore, conversation: str) -> None:
    if conversation not in await store.conversations():
        raise UsageProblem(f"The store has no conversation {conversation!r}; advisorchain memory list shows them.")


@memory_app.command("list")
def list_conversations(store: StoreOption) -> None:
    """Print the ids of the conversations, one on each line."""
    with one_line_errors():
        for conversation_id in _in_store(store, lambda opened: opened.conversations()):
            typer.echo(_shown(conversation_id))


@memory_app.command("show")
def show_conversation(
    conversation: ConversationArgument,
    store: StoreOption,
    last: Annotated[int | None, typer.Option("--last", "-n", min=1, help="Only the last turns.")] = None,
    branch: Annotated[str, typer.Option("--branch", "-b", help="A sub-agent's branch, for example researcher.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print a conversation, turn by turn."""

    async def load(opened: MemoryStore) -> History:
        await _existing(opened, conversation)
        return await opened.load(conversation, branch=branch, last_turns=last)

    with one_line_errors():
        history = _in_store(store, load)
        if as_json:
            typer.echo(dump_messages(history))
            return
        print_turns(open_console(), history)


def print_turns(console: Console, history: History, indent: int = 0) -> None:
    """Print a conversation, turn by turn."""
    for turn in history.turns:
        console.print(Text(" " * indent + f"turn {_shown(turn.id)}", style="dim"), soft_wrap=True)
        for message in turn.messages:
            for line in _lines(message):
                print_wrapped(console, line, indent + 2, hanging=2)


@memory_app.command("delete")
def delete_conversation(
    conversation: ConversationArgument,
    store: StoreOption,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a conversation with all its branches."""

    async def find(opened: MemoryStore) -> None:
        await _existing(opened, conversation)

    async def delete(opened: MemoryStore) -> None:
        await opened.delete(conversation)

    with one_line_errors():
        _in_store(store, find)
        if not yes:
            typer.confirm(f"Delete conversation {_shown(conversation)} with all its branches?", abort=True)
        _in_store(store, delete)
        typer.echo(f"deleted {_shown(conversation)}")


def _shown(text: str) -> str:
    """An id in one line, however strange it is."""
    return text if text and text == one_line(text) else repr(text)


def _lines(message: Message) -> list[str]:
    if isinstance(message, ToolMessage):
        failed = " (error)" if message.is_error else ""
        return [f"{message.role} {message.name}{failed}: {shortened(message.text, WIDTH)}"]
    lines = [f"{message.role}: {message.text}"] if message.text else []
    content: Any = getattr(message, "content", "")
    if not isinstance(content, str):
        lines += [f"{message.role}: [{part.kind}]" for part in content if part.kind != "text"]
    if isinstance(message, AssistantMessage):
        lines += [
            f"{message.role} calls {call.name}({shortened(str(call.arguments), WIDTH)})" for call in message.tool_calls
        ]
    return lines or [f"{message.role}:"]
