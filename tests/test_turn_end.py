"""Callbacks at the end of a turn that have nothing to await, and the chain that a turn knows."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain import ChatClient, TurnEnd, chat_advisor
from advisorchain.testing import ScriptedModel


def registering(*callbacks: Any) -> Any:
    @chat_advisor(order=100, name="registers")
    async def registers(request: Any, call_next: Any) -> Any:
        for callback in callbacks:
            request.context.at_turn_end(callback)
        return await call_next(request)

    return registers


async def test_plain_and_async_callbacks_keep_their_order(run: Any) -> None:
    seen: list[Any] = []

    def plain(name: str) -> Any:
        return lambda end: seen.append((name, end.response.text))

    def waiting(name: str) -> Any:
        async def callback(end: TurnEnd) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append((name, end.response and end.response.text))

        return callback

    chat = ChatClient(
        ScriptedModel(["hi"]), advisors=[registering(plain("a"), waiting("b"), plain("c"), waiting("d"), plain("e"))]
    )
    await run(chat, "go")
    assert seen == [(name, "hi") for name in "edcba"]


@pytest.mark.parametrize("waits", [False, True])
async def test_the_outer_ones_learn_of_a_callbacks_failure(run: Any, waits: bool) -> None:
    seen: list[Any] = []

    async def fail_later(end: TurnEnd) -> None:
        await anyio.lowlevel.checkpoint()
        raise OSError("no")

    def fail(end: TurnEnd) -> None:
        raise OSError("no")

    chat = ChatClient(
        ScriptedModel(["hi"]), advisors=[registering(lambda end: seen.append(end.error), fail_later if waits else fail)]
    )
    with pytest.raises(OSError, match="no") as raised:
        await run(chat, "go")
    assert seen == [raised.value]


async def test_a_callback_that_hangs_does_not_keep_the_plain_ones_from_running(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from advisorchain import turn_end

    monkeypatch.setattr(turn_end, "TURN_END_SECONDS", 0.05)
    seen: list[Any] = []

    async def hang(end: TurnEnd) -> None:
        await anyio.sleep_forever()

    async def late(end: TurnEnd) -> None:
        seen.append("never")

    chat = ChatClient(
        ScriptedModel(["hi"]), advisors=[registering(lambda end: seen.append(type(end.error)), late, hang)]
    )
    with pytest.raises(TimeoutError, match="took over"):
        await run(chat, "go")
    assert seen == [TimeoutError]


async def test_a_turn_knows_the_chain_that_runs_it(run: Any) -> None:
    found: list[Any] = []

    @chat_advisor(order=600, name="looks")
    async def looks(request: Any, call_next: Any) -> Any:
        found.append(request.context.turn.chain)
        return await call_next(request)

    inner = ChatClient(ScriptedModel(["inner"]), advisors=[looks])
    chat = ChatClient(inner.as_model(), advisors=[looks])
    await run(chat, "go")
    assert found == [chat.chain, inner.chain]
