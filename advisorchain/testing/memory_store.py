"""`check_memory_store`: the contract that every memory store keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from ..errors import MemoryStoreError
from ..memory import History, MemoryStore
from ..messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UnknownMessage,
    UnknownPart,
    UserMessage,
)
from .contract import check_rule

MakeStore = Callable[[], MemoryStore | Awaitable[MemoryStore]]

TASKS = 50
"""How many tasks append at once."""


async def check_memory_store(make_store: MakeStore) -> None:
    """Check a memory store against the contract of `MemoryStore`.

    Args:
        make_store: gives an empty store; called once for each check, may be async. A store with ``aclose()`` or
            ``close()`` is closed after its check.

    Raises:
        AssertionError: says which rule is broken, what was expected, and what was found.
    """
    for rule in _CHECKS:
        await check_rule(rule, make_store)


def _turn(number: int | str, tools: bool = False) -> tuple[Message, ...]:
    question, answer = UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}")
    if not tools:
        return question, answer
    call = ToolCall("look", {"at": number}, "call_0")
    return (
        question,
        AssistantMessage(tool_calls=(call,)),
        ToolMessage(content="seen", call_id=call.id, name="look"),
        answer,
    )


def _every_kind() -> tuple[Message, ...]:
    parts: Any = (
        TextPart(text='tab\t, quote ", NUL \x00, 好, 🙂, \u2028'),
        ImagePart(data=bytes(range(256)), media_type="image/png"),
        AudioPart(url="https://example.org/a.mp3"),
        FilePart(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
        ReasoningPart(text="hm", signature="c2ln"),
        ProviderPart(provider="acme", type="block", data={"deep": [1, 2.5, None, {"x": True}], "inf": float("inf")}),
        UnknownPart.model_validate({"kind": "hologram", "rays": [1, {"a": "b"}]}),
    )
    calls = (
        ToolCall("ask", {"q": "好", "n": 1.5, "l": []}, "c1"),
        ToolCall("ask", '{"malformed": ', "c2", metadata={"signature": "s"}),
        ToolCall("search", {"q": "x"}, "c3", executed_by="provider"),
    )
    return (
        UserMessage(content=parts, metadata={"from": "web"}),
        AssistantMessage(content=parts, tool_calls=calls),
        ToolMessage(content="", call_id="c1", name="ask", is_error=True, source="server", trusted=False),
        ToolMessage(content=parts, call_id="c2", name="ask"),
        UnknownMessage.model_validate({"role": "observer", "content": "kept", "more": {"a": [1]}}),
        AssistantMessage(content=""),
    )


def _same(found: Sequence[Message], expected: Sequence[Message], what: str) -> None:
    if tuple(found) == tuple(expected):
        return
    for index, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            raise AssertionError(f"{what}: message {index} is {one!r}, not {other!r}.")
    raise AssertionError(f"{what}: found {len(found)} messages, not {len(expected)}.")


def _that(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


async def _unknown(store: MemoryStore) -> None:
    """A conversation that does not exist is empty."""
    found = await store.load("nobody")
    _that(isinstance(found, History), f"load gives {type(found).__name__}, not a History.")
    _same(found, (), "load of an unknown conversation")
    _that(tuple(await store.conversations()) == (), "conversations() of an empty store is not empty.")
    await store.delete("nobody")


async def _keeps_messages(store: MemoryStore) -> None:
    """What is appended comes back, turn by turn, in order; a lossless store loses nothing."""
    _that(isinstance(store.lossless, bool), f"lossless is {store.lossless!r}, not True or False.")
    first = _every_kind() if store.lossless else _turn("first")
    turns = [("t1", first), ("t2", _turn(2, tools=store.lossless)), ("t3", _turn(3))]
    for turn_id, messages in turns:
        await store.append("c", turn_id, messages)
    found = await store.load("c")
    _same(found, [message for _, messages in turns for message in messages], "load")
    _that([turn.id for turn in found.turns] == ["t1", "t2", "t3"], f"the turns are {[t.id for t in found.turns]}.")
    for turn, (_, messages) in zip(found.turns, turns, strict=True):
        _same(turn.messages, messages, f"turn {turn.id}")


async def _idempotent(store: MemoryStore) -> None:
    """A message is stored once in a turn, and again in another turn."""
    first, constant = _turn(1), UserMessage(content="go on")
    await store.append("c", "t1", first)
    await store.append("c", "t1", first)
    _same(await store.load("c"), first, "after the same append twice")
    later = AssistantMessage(content="more")
    await store.append("c", "t2", [constant, AssistantMessage(content="yes", id="a2")])
    await store.append("c", "t1", [*first, later])
    await store.append("c", "t3", [constant, AssistantMessage(content="yes", id="a2")])
    found = await store.load("c")
    _same(found[:3], (*first, later), "a turn that was appended to stays in its place")
    _that([message.text for message in found[3:]] == ["go on", "yes"] * 2, "a message used in two turns is in both.")
    await store.append("d", "t1", [*first, first[0]])
    _same(await store.load("d"), first, "a message that is twice in one append is stored where it was first")
    await store.append("c", "t4", [])
    _that(len((await store.load("c")).turns) == 3, "an append of nothing makes no turn.")


async def _bounds(store: MemoryStore) -> None:
    """last_turns and last_messages give whole turns, the latest."""
    sizes = [2, 4, 2, 2] if store.lossless else [2, 2, 2, 2]
    turns = [_turn(number, tools=size == 4) for number, size in enumerate(sizes)]
    for number, messages in enumerate(turns):
        await store.append("c", f"t{number}", messages)
        await store.append("other", f"t{number}", _turn(f"other {number}"))

    def last(count: int) -> list[Message]:
        return [message for messages in turns[len(turns) - count :] for message in messages]

    for count in range(6):
        _same(await store.load("c", last_turns=count), last(min(count, 4)), f"last_turns={count}")
    for count in range(12):
        fit = 0
        while fit < 4 and len(last(fit + 1)) <= count:
            fit += 1
        _same(await store.load("c", last_messages=count), last(fit), f"last_messages={count}")
    _same(await store.load("c", last_turns=3, last_messages=4), last(2), "last_turns=3, last_messages=4")
    _same(await store.load("c", last_turns=1, last_messages=9), last(1), "last_turns=1, last_messages=9")


async def _before(store: MemoryStore) -> None:
    """before= reads an earlier state."""
    turns = [_turn(number) for number in range(4)]
    for number, messages in enumerate(turns):
        await store.append("c", f"t{number}", messages)
    for message in turns[2]:
        key = str(getattr(message, "id", ""))
        _same(await store.load("c", before=key), (*turns[0], *turns[1]), "before= a message of the third turn")
        _same(await store.load("c", before=key, last_turns=1), turns[1], "before= with last_turns=1")
        _same(await store.load("c", before=key, last_messages=3), turns[1], "before= with last_messages=3")
    try:
        await store.load("c", before="no such id")
    except MemoryStoreError as exc:
        _that("no such id" in str(exc), f"the error does not name the id: {exc}")
    else:
        raise AssertionError("before= an unknown id raised no MemoryStoreError.")


async def _apart(store: MemoryStore) -> None:
    """Conversations and their branches are apart; delete takes one with all its branches."""
    ids = ["c", "C", "c/1", "c:1", "", " ", "好 🙂", "a'; --", "%", "x" * 500]
    for conversation_id in ids:
        await store.append(conversation_id, "t", [UserMessage(content=conversation_id)])
        for branch in ("b", "b#2", "b/c"):
            await store.append(
                conversation_id, "t", [UserMessage(content=f"{conversation_id} {branch}")], branch=branch
            )
    _that(tuple(await store.conversations()) == tuple(sorted(ids)), f"conversations() is not {sorted(ids)}.")
    await store.delete("c")
    for conversation_id in ids:
        for branch in ("", "b", "b#2", "b/c"):
            found = [message.text for message in await store.load(conversation_id, branch=branch)]
            text = f"{conversation_id} {branch}" if branch else conversation_id
            expected = [] if conversation_id == "c" else [text]
            _that(found == expected, f"conversation {conversation_id!r}, branch {branch!r}: {found}, not {expected}.")
    _that("c" not in await store.conversations(), "a deleted conversation is still listed.")
    await store.append("c", "t", _turn("again"))
    _that(len(await store.load("c")) == 2, "a deleted conversation can be begun again, with the same turn id.")


async def _concurrent(store: MemoryStore) -> None:
    """Tasks that append at once lose nothing, double nothing, and do not interleave turns."""
    turns = {f"t{number}": _turn(number, tools=store.lossless) for number in range(TASKS)}

    async def add(turn_id: str) -> None:
        await store.append("c", turn_id, turns[turn_id])
        await store.append("c", turn_id, turns[turn_id])
        await store.load("c", last_turns=3)

    async with anyio.create_task_group() as group:
        for turn_id in turns:
            group.start_soon(add, turn_id)
    found = await store.load("c")
    order = [turn.id for turn in found.turns]
    _that(sorted(order) == sorted(turns), f"there are {len(order)} turns, {len(set(order))} different, not {TASKS}.")
    for turn in found.turns:
        _same(turn.messages, turns[turn.id], f"turn {turn.id}")
    _that([turn.id for turn in (await store.load("c")).turns] == order, "two loads give two orders.")


async def _atomic(store: MemoryStore) -> None:
    """A load beside an append sees all of the append or nothing."""
    torn: list[int] = []

    async def read() -> None:
        for _ in range(20):
            found = await store.load("c")
            torn.extend(len(turn.messages) for turn in found.turns if len(turn.messages) != 40)
            await anyio.lowlevel.checkpoint()

    async def write() -> None:
        for number in range(10):
            await store.append("c", f"t{number}", [message for part in range(20) for message in _turn(part)])

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
    _that(not torn, f"turns of {torn} messages were seen while turns of 40 were appended.")


_CHECKS = (_unknown, _keeps_messages, _idempotent, _bounds, _before, _apart, _concurrent, _atomic)
