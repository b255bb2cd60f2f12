"""The life of a connection: when it begins, who may use and end it, how long it may take, and in which era."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_client import children, lines, lives, raw, result_of, until, wait_for
from mcp_http import LegacyMcp, serving

from advisorchain import ChatClient, ConfigurationError, ToolCall
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel

# Beginning and end ---------------------------------------------------------------------------------------------------


def test_importing_our_package_does_not_import_the_sdk() -> None:
    code = (
        "import sys; import advisorchain.mcp; from advisorchain.mcp import McpServer, McpTools, ToolFilter, Pinning;"
        "McpTools([McpServer.stdio('x', name='x')]).status(); print('mcp' in sys.modules, 'mcp_types' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


async def test_nothing_is_started_before_the_first_use(mcp: Any, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw(starts=str(starts)))
    ChatClient(ScriptedModel([]), tools=[tools])
    assert tools.status()[0].state == "idle"
    await anyio.sleep(0.1)
    assert not starts.exists()

    await tools.listed()
    assert len(lines(starts)) == 1
    assert tools.status()[0].state == "connected"


async def test_async_with_connects_and_leaves_no_child(tmp_path: Path) -> None:
    before = children()
    async with McpTools([raw("one"), raw("two")]) as tools:
        assert [status.state for status in tools.status()] == ["connected", "connected"]
        assert len(children() - before) == 2
    assert not children() - before
    assert [status.state for status in tools.status()] == ["idle", "idle"]


async def test_an_exception_in_the_block_leaves_no_child() -> None:
    before = children()
    with pytest.raises(ZeroDivisionError):
        async with McpTools([raw("one"), raw("two")]):
            raise ZeroDivisionError
    assert not children() - before


async def test_a_cancelled_block_leaves_no_child() -> None:
    before = children()
    async with anyio.create_task_group() as group:

        async def use() -> None:
            async with McpTools([raw("one"), raw("two")]):
                started.set()
                await anyio.sleep_forever()

        started = anyio.Event()
        group.start_soon(use)
        await started.wait()
        group.cancel_scope.cancel()
    assert not children() - before


async def test_a_block_that_is_never_entered_leaves_no_child() -> None:
    before = children()
    with pytest.raises(ConfigurationError, match="share a name"):
        async with McpTools([raw("one"), raw("two")], prefix=None):
            pytest.fail("two tools have one name")
    assert not children() - before
    with anyio.move_on_after(0.5):
        async with McpTools([raw("one"), raw("two", slow={"tools/list": 5})]):
            pytest.fail("it does not list its tools in time")
    assert not children() - before


async def test_any_task_may_close_in_any_order() -> None:
    """Kind: a cancel scope that is left in another task than the one that entered it."""
    before = children()
    made = [McpTools([raw(name)]) for name in ("one", "two", "three")]
    for tools in made:
        await tools.listed()
    order: list[int] = []
    async with anyio.create_task_group() as group:

        async def close(number: int) -> None:
            await made[number].aclose()
            order.append(number)

        for number in (1, 0, 2):
            group.start_soon(close, number)
    assert sorted(order) == [0, 1, 2]
    assert not children() - before
    assert await made[1].listed()  # what was closed can be used again
    await made[1].aclose()
    assert not children() - before


async def test_closing_twice_and_using_it_afterwards(mcp: Any, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw(starts=str(starts)))
    await tools.aclose()
    await tools.listed()
    await tools.aclose()
    await tools.aclose()
    assert (await result_of(tools, "add", {"a": 1, "b": 2})).content == "3"
    assert len(lines(starts)) == 2


async def test_two_who_close_at_once_both_wait_for_the_end(mcp: Any, quick_kill: None) -> None:
    tools = mcp(raw("stubborn", ignore_term=True))
    await tools.listed()
    pid = int((await result_of(tools, "pid")).content)
    alive: list[bool] = []

    async def close() -> None:
        await tools.aclose()
        alive.append(lives(pid))

    async with anyio.create_task_group() as group:
        group.start_soon(close)
        group.start_soon(close)
    assert alive == [False, False]


async def test_many_first_users_connect_once(mcp: Any, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw(starts=str(starts)))
    found: list[int] = []
    async with anyio.create_task_group() as group:

        async def use() -> None:
            found.append(len(await tools.listed()))

        for _ in range(20):
            group.start_soon(use)
    assert len(lines(starts)) == 1
    assert len(set(found)) == 1 and len(found) == 20


async def test_a_cancelled_first_user_does_not_break_the_others(mcp: Any, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw(starts=str(starts), slow={"initialize": 0.5}))
    found: list[Any] = []
    async with anyio.create_task_group() as group:

        async def first() -> None:
            with anyio.move_on_after(0.1):
                await tools.listed()

        async def other() -> None:
            await anyio.sleep(0.05)
            found.append(await tools.listed())

        group.start_soon(first)
        group.start_soon(other)
        group.start_soon(other)
    assert len(lines(starts)) == 1
    assert all(found) and len(found) == 2


async def test_closing_while_it_connects_ends_at_once(tmp_path: Path) -> None:
    before = children()
    tools = McpTools([raw(mute=["server/discover", "initialize"], settings={"connect_timeout": 30})])
    async with anyio.create_task_group() as group:
        group.start_soon(tools.listed)
        assert await until(lambda: len(children() - before) == 1)
        start = anyio.current_time()
        await tools.aclose()
    assert anyio.current_time() - start < 10
    assert not children() - before


def test_an_event_loop_that_ends_without_close_leaves_no_child() -> None:
    before = children()
    tools = McpTools([raw("one"), raw("two")])
    for backend in ("asyncio", "trio", "asyncio"):
        assert len(anyio.run(tools.listed, backend=backend)) > 10
        assert wait_for(lambda: not children() - before), backend
    assert {status.state for status in tools.status()} <= {"idle", "lost"}


def test_event_loops_of_the_past_are_not_kept() -> None:
    tools = McpTools([raw()])

    async def use() -> None:
        await tools.listed()
        async with anyio.create_task_group() as group:  # a lock that was waited for knows its loop
            group.start_soon(tools.listed)
            group.start_soon(tools.listed)

    for backend in ("asyncio", "trio", "asyncio", "trio", "trio"):
        anyio.run(use, backend=backend)
    assert len(tools._loops) == 1


def test_two_threads_with_an_event_loop_each() -> None:
    before = children()
    tools = McpTools([raw()])
    pids: list[str] = []

    def work(backend: str) -> None:
        async def use() -> None:
            for _ in range(5):
                pids.append(str((await result_of(tools, "pid")).content))
            await tools.aclose()

        anyio.run(use, backend=backend)

    threads = [threading.Thread(target=work, args=(backend,)) for backend in ("asyncio", "trio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(pids) == 10 and len(set(pids)) == 2
    assert not children() - before


def test_a_tool_that_was_listed_in_one_loop_is_called_over_the_connection_of_another() -> None:
    tools = McpTools([raw()])
    (add,) = [tool for tool in asyncio.run(_listed(tools)) if tool.name == "add"]
    model = ScriptedModel([[ToolCall("add", {"a": 2, "b": 2})], "done"])

    async def use() -> str:
        response = await ChatClient(model, tools=[add]).call("go")
        await tools.aclose()
        return response.new_messages[1].content

    assert asyncio.run(use()) == "4"


async def _listed(tools: McpTools) -> Any:
    return await tools.listed()


def test_sync_calls() -> None:
    from advisorchain.sync import run_sync

    before = children()
    tools = McpTools([raw()])
    client = ChatClient(
        ScriptedModel([[ToolCall("add", {"a": 1, "b": 1})], "a", [ToolCall("pid", {})], "b"]), tools=[tools]
    )
    assert client.call_sync("go").new_messages[1].content == "2"
    assert client.call_sync("go").new_messages[1].content in map(str, children() - before)
    run_sync(tools.aclose)
    assert not children() - before


def test_a_program_that_ends_after_sync_calls_leaves_no_child(tmp_path: Path) -> None:
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent.parent / "support")]!r}
from mcp_client import raw
from advisorchain import ChatClient, ToolCall
from advisorchain.mcp import McpTools
from advisorchain.testing import ScriptedModel
client = ChatClient(ScriptedModel([[ToolCall("pid", {{}})], "done"]), tools=[McpTools([raw()])])
print(client.call_sync("go").new_messages[1].content)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert wait_for(lambda: not lives(int(done.stdout)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads
def test_a_forked_process_has_its_own_connections() -> None:
    tools = McpTools([raw()])
    parent = asyncio.run(_listed(tools))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        try:
            names = [tool.name for tool in asyncio.run(_listed(tools))]
            os.write(writing, " ".join(names).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as answer:
        assert answer.read().split() == [tool.name for tool in parent]


async def test_the_context_of_the_first_turn_does_not_leak_into_the_connection(anyio_backend: str) -> None:
    user = contextvars.ContextVar("user", default="nobody")
    seen: list[str] = []

    async def headers() -> dict[str, str]:
        seen.append(user.get())
        return {}

    tools = McpTools([McpServer.http("http://127.0.0.1:9/mcp", headers=headers, connect_timeout=2)])
    user.set("alice")
    await tools.listed()
    await tools.aclose()
    assert seen and set(seen) == {"nobody"}


# Time ----------------------------------------------------------------------------------------------------------------


async def test_a_mute_server_costs_its_connect_timeout_and_its_child_is_killed(mcp: Any, quick_kill: None) -> None:
    before = children()
    tools = mcp(raw(mute=["server/discover", "initialize"], ignore_term=True, settings={"connect_timeout": 0.6}))
    start = anyio.current_time()
    assert not await tools.listed()
    assert anyio.current_time() - start < 10
    assert tools.status()[0].state == "failed"
    assert "could not be connected within 0.6 s" in str(tools.status()[0].error)
    await tools.aclose()
    assert not children() - before


async def test_everybody_who_waits_for_a_mute_server_waits_once(mcp: Any) -> None:
    tools = mcp(raw(mute=["server/discover", "initialize"], settings={"connect_timeout": 0.6}))
    start = anyio.current_time()
    async with anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(tools.listed)
    assert anyio.current_time() - start < 10


async def test_a_slow_listing_costs_its_timeout(mcp: Any) -> None:
    tools = mcp(raw(mute=["tools/list"], settings={"list_timeout": 0.5}))
    start = anyio.current_time()
    assert not await tools.listed()
    assert anyio.current_time() - start < 10
    assert "did not list its tools within 0.5 s" in str(tools.status()[0].error)


async def test_a_slow_call_ends_in_time_and_the_server_is_used_on(mcp: Any, tmp_path: Path, call: Any) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw(starts=str(starts), settings={"call_timeout": 0.5}))
    await tools.listed()
    start = anyio.current_time()
    message = await call(tools, "wait", {"seconds": 30})
    assert anyio.current_time() - start < 10
    assert message.is_error and "did not answer within 0.5 s" in message.content
    assert (await call(tools, "add", {"a": 1, "b": 2})).content == "3"
    assert len(lines(starts)) == 1


async def test_a_stopped_process_costs_the_call_timeout_and_is_killed_on_close(call: Any, quick_kill: None) -> None:
    before = children()
    tools = McpTools([raw(settings={"call_timeout": 0.5})])
    await tools.listed()
    (pid,) = children() - before
    os.kill(pid, signal.SIGSTOP)
    assert "did not answer within 0.5 s" in (await call(tools, "add", {"a": 1, "b": 2})).content
    await tools.aclose()
    assert not lives(pid)


async def test_a_server_that_reads_nothing_more_holds_nobody_up(mcp: Any, call: Any, quick_kill: None) -> None:
    """Kind: telling the server that a call is given up takes longer than the call was given."""
    tools = mcp(raw(deaf=["tools/list"], settings={"call_timeout": 0.5, "era": "legacy"}))
    await tools.listed()
    for size in (200_000, 1):  # the first fills the pipe
        start = anyio.current_time()
        assert "did not answer within 0.5 s" in (await call(tools, "add", {"a": 1, "b": 2, "c": "x" * size})).content
        assert anyio.current_time() - start < 10
    start = anyio.current_time()
    with anyio.move_on_after(0.2):
        await call(tools, "add", {"a": 1, "b": 2})
    assert anyio.current_time() - start < 10


async def test_a_call_that_is_given_up_is_cancelled_at_the_server(mcp: Any, tmp_path: Path) -> None:
    cancelled = tmp_path / "cancelled"
    tools = mcp(raw(cancelled=str(cancelled), settings={"call_timeout": 0.4}))
    await result_of(tools, "wait", {"seconds": 5})
    assert await until(lambda: len(lines(cancelled)) == 1)
    with anyio.move_on_after(0.4):
        await result_of(tools, "wait", {"seconds": 5})
    assert await until(lambda: len(lines(cancelled)) == 2)


@pytest.mark.parametrize("close", [True, False])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_http_server_that_is_mute_at_the_end_does_not_hold_us_up(close: bool, backend: str) -> None:
    over = threading.Event()

    class Mute(LegacyMcp):
        def __call__(self, method: str, path: str, headers: dict[str, str], message: Any) -> Any:
            if method == "DELETE":
                over.wait(20)
            return super().__call__(method, path, headers, message)

    with serving(Mute([])) as http:
        tools = McpTools([McpServer.http(http.url + "/mcp")])

        async def use() -> None:
            await tools.listed()
            if close:
                await tools.aclose()

        start = time.monotonic()
        anyio.run(use, backend=backend)
        over.set()
        assert time.monotonic() - start < 10


# Eras ----------------------------------------------------------------------------------------------------------------


async def test_a_server_that_exits_at_the_probe_works_by_the_old_handshake(mcp: Any, tmp_path: Path) -> None:
    """Kind: a server that ends at a method that it does not know."""
    starts = tmp_path / "starts"
    tools = mcp(raw(exit_on=["server/discover"], starts=str(starts)))
    assert (await result_of(tools, "add", {"a": 1, "b": 2})).content == "3"
    assert len(lines(starts)) == 2
    await result_of(tools, "die")
    assert (await result_of(tools, "add", {"a": 1, "b": 2})).content == "3"
    assert len(lines(starts)) == 3, "what it speaks was not remembered"
    await tools.aclose()
    await tools.listed()
    assert len(lines(starts)) == 4


async def test_a_server_that_is_mute_at_the_probe_works_at_the_second_use(mcp: Any) -> None:
    tools = mcp(raw(mute=["server/discover"], settings={"connect_timeout": 0.6}))
    assert not await tools.listed()
    assert (await result_of(tools, "add", {"a": 1, "b": 2})).content == "3"
    assert tools.status()[0].error is None


async def test_the_second_attempt_has_only_the_time_that_is_left(mcp: Any) -> None:
    habits = {"slow": {"server/discover": 1.2}, "exit_on": ["server/discover"], "mute": ["initialize"]}
    took: list[float] = []
    while not took or (min(took) > 2.25 and len(took) < 3):  # other work on the machine only adds
        tools = mcp(raw(**habits, settings={"connect_timeout": 1.5}))
        start = anyio.current_time()
        assert not await tools.listed()
        took.append(anyio.current_time() - start)
    assert min(took) < 2.25, "2.7 and more, had it all the time"
