"""The sync face: from plain code, from threads, inside running loops, after a fork, and under Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    Finished,
    ModelError,
    TextDelta,
    ToolCall,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel

VAR: ContextVar[str] = ContextVar("VAR", default="unset")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def client() -> ChatClient:
    return ChatClient(ScriptedModel([["See. ", ToolCall("add", {"a": 1, "b": 2})], "It is 3."]), tools=[add])


# Plain code ----------------------------------------------------------------------------------------------------------


def test_call_sync() -> None:
    response = client().call_sync("1 + 2?")
    assert response.text == "It is 3."
    assert [message.role for message in response.new_messages] == ["assistant", "tool", "assistant"]


def test_call_sync_takes_the_settings_of_call() -> None:
    response = ChatClient(ScriptedModel(["[1, 2]"])).call_sync("?", output_type=list[int], options={"temperature": 0})
    assert response.output == [1, 2]


def test_call_sync_raises_the_error_itself() -> None:
    error = ModelError("down")
    with pytest.raises(ModelError) as caught:
        ChatClient(ScriptedModel([error])).call_sync("?")
    assert caught.value is error
    with pytest.raises(ConfigurationError):
        client().call_sync("?", options={"nonsense": 1})


def test_stream_sync() -> None:
    with client().stream_sync("?") as stream:
        events = list(stream)
        response = stream.response()
    assert isinstance(events[-1], Finished) and events[-1].response is response
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "See. It is 3."
    with client().stream_sync("?") as stream:
        assert "".join(stream.text()) == "See. It is 3."
    with client().stream_sync("?") as stream:
        assert "".join(stream.text(final=True)) == "It is 3."


def test_stream_sync_raises_the_error_itself() -> None:
    error = ModelError("down")
    with ChatClient(ScriptedModel([error])).stream_sync("?") as stream:
        with pytest.raises(ModelError) as caught:
            list(stream)
        assert caught.value is error
        with pytest.raises(ModelError) as caught:
            stream.response()
        assert caught.value is error


def test_leaving_a_sync_stream_early_cancels_the_turn() -> None:
    log: list[str] = []

    async def hangs(request: ChatRequest) -> ChatResponse[Any]:
        await request.emit(TextDelta("first"))
        try:
            await anyio.sleep_forever()
        finally:
            log.append("cancelled")
        raise AssertionError

    with ChatClient(hangs).stream_sync("?") as stream:
        for event in stream:
            if isinstance(event, TextDelta):
                break
    assert log == ["cancelled"]


def test_a_sync_stream_arrives_while_the_turn_runs() -> None:
    go_on = threading.Event()

    async def model(request: ChatRequest) -> ChatResponse[Any]:
        await request.emit(TextDelta("first "))
        await anyio.to_thread.run_sync(go_on.wait)
        await request.emit(TextDelta("second"))
        return ChatResponse(AssistantMessage(content="first second"))

    texts: list[str] = []
    with ChatClient(model).stream_sync("?") as stream:
        for text in stream.text():
            texts.append(text)
            go_on.set()
    assert texts == ["first ", "second"]


def test_context_variables_of_the_caller_are_seen() -> None:
    seen: list[str] = []

    @chat_advisor(order=300)
    async def look(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        seen.append(VAR.get())
        return await call_next(request)

    token = VAR.set("callers")
    try:
        sync_client = ChatClient(ScriptedModel(["a", "b"]), advisors=[look])
        sync_client.call_sync("?")
        with sync_client.stream_sync("?") as stream:
            stream.response()
    finally:
        VAR.reset(token)
    assert seen == ["callers", "callers"]


def test_from_many_threads_at_once() -> None:
    async def echo(request: ChatRequest) -> ChatResponse[Any]:
        await anyio.sleep(0.01)
        return ChatResponse(AssistantMessage(content=request.user_text))

    shared = ChatClient(echo)
    found: dict[int, str] = {}

    def one(number: int) -> None:
        found[number] = shared.call_sync(str(number)).text

    threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: str(number) for number in range(20)}


@pytest.mark.parametrize("mode", ["call", "stream"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), BaseException("odd")])
def test_an_exit_raised_in_a_turn_arrives_and_the_next_turn_works(mode: str, error: BaseException) -> None:
    """It ends that turn, not the background loop of the whole process."""
    broken = ChatClient(ScriptedModel([error]))
    with pytest.raises(type(error)):
        if mode == "call":
            broken.call_sync("?")
        else:
            with broken.stream_sync("?") as stream:
                list(stream)
    assert client().call_sync("?").text == "It is 3."


def test_an_interrupt_while_a_sync_stream_is_entered_ends_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block is never entered then, so nobody else would end it."""
    import advisorchain.sync

    log: list[str] = []
    ended = threading.Event()

    async def hangs(request: ChatRequest) -> ChatResponse[Any]:
        try:
            await anyio.sleep_forever()
        finally:
            log.append("cancelled")
            ended.set()
        raise AssertionError

    inner, interrupted = advisorchain.sync.run_sync, False

    def run_sync(fn: Any) -> Any:
        nonlocal interrupted
        result = inner(fn)
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(advisorchain.sync, "run_sync", run_sync)
    with pytest.raises(KeyboardInterrupt), ChatClient(hangs).stream_sync("?"):
        raise AssertionError("not entered")
    ended.wait(5)
    assert log == ["cancelled"]


def test_an_interrupt_before_a_sync_stream_is_entered_arrives_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    import advisorchain.sync

    inner, interrupted = advisorchain.sync.run_sync, False

    def run_sync(fn: Any) -> Any:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt
        return inner(fn)

    monkeypatch.setattr(advisorchain.sync, "run_sync", run_sync)
    with pytest.raises(KeyboardInterrupt), client().stream_sync("?"):
        raise AssertionError("not entered")


# Inside loops --------------------------------------------------------------------------------------------------------


async def test_inside_a_running_loop() -> None:
    """As in a Jupyter cell: sync code in the thread of a running loop. It blocks that loop, and works."""
    assert client().call_sync("?").text == "It is 3."
    with client().stream_sync("?") as stream:
        assert "".join(stream.text()) == "See. It is 3."


async def test_in_a_worker_thread_of_a_running_loop() -> None:
    assert (await anyio.to_thread.run_sync(lambda: client().call_sync("?"))).text == "It is 3."


def test_in_a_sync_tool_of_a_sync_call() -> None:
    @tool
    def ask() -> str:
        """Ask another client."""
        return client().call_sync("?").text

    response = ChatClient(ScriptedModel([[ToolCall("ask", {})], "ok"]), tools=[ask]).call_sync("?")
    assert response.new_messages[1].text == "It is 3."


def test_on_the_background_loop_itself_it_is_refused() -> None:
    @chat_advisor(order=300)
    async def wrong(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return client().call_sync("?")

    with pytest.raises(ConfigurationError, match="await"):
        ChatClient(ScriptedModel([]), advisors=[wrong]).call_sync("?")

    @chat_advisor(order=300)
    async def wrong_stream(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        with client().stream_sync("?") as stream:
            return stream.response()

    with pytest.raises(ConfigurationError, match="await"):
        ChatClient(ScriptedModel([]), advisors=[wrong_stream]).call_sync("?")


# Processes -----------------------------------------------------------------------------------------------------------

PRELUDE = """
import os, signal, sys, threading, time
import anyio
from advisorchain import AssistantMessage, ChatClient, ChatResponse, TextDelta
from advisorchain.testing import ScriptedModel

def say(*words):
    print(*words, flush=True)

async def hangs(request):
    await request.emit(TextDelta("first"))
    await anyio.sleep(0.2)  # so that the main thread waits for the turn when it is interrupted
    say("running")
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.3)
        say("cleaned up")
"""


def python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt(code: str) -> list[str]:
    """Run the code, interrupt it when it says that it is running, and give what it said after that."""
    process = python(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert err == "" and process.returncode == 0, err
    return out.splitlines()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_cancels_the_turn_and_waits_for_it() -> None:
    assert interrupt("""
        try:
            ChatClient(hangs).call_sync("?")
        except KeyboardInterrupt:
            say("interrupted")
        say(ChatClient(ScriptedModel(["still works"])).call_sync("?").text)
    """) == ["cleaned up", "interrupted", "still works"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_in_a_sync_stream() -> None:
    assert interrupt("""
        try:
            with ChatClient(hangs).stream_sync("?") as stream:
                for event in stream:
                    pass
        except KeyboardInterrupt:
            say("interrupted")
        say(ChatClient(ScriptedModel(["still works"])).call_sync("?").text)
    """) == ["cleaned up", "interrupted", "still works"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_between_the_reads_of_a_sync_stream() -> None:
    assert interrupt("""
        try:
            with ChatClient(hangs).stream_sync("?") as stream:
                for event in stream:
                    if isinstance(event, TextDelta):
                        while True:
                            time.sleep(0.01)
        except KeyboardInterrupt:
            say("interrupted")
    """) == ["cleaned up", "interrupted"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_after_a_fork() -> None:
    process = python("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks of processes with threads
        client = ChatClient(ScriptedModel(["parent", "child"]))
        say(client.call_sync("?").text)
        pid = os.fork()
        if pid == 0:
            client.call_sync("?")  # the child's copy of the script is at its second step
            other = ChatClient(ScriptedModel(["forked"]))
            with other.stream_sync("?") as stream:
                say("".join(stream.text()))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        say(status, client.call_sync("?").text)
    """)
    out, err = process.communicate(timeout=30)
    assert (out.splitlines(), err) == (["parent", "forked", "0 child"], "")


@pytest.mark.skipif(os.name == "nt", reason="limits")
def test_a_background_loop_that_cannot_start_is_an_error_and_no_hang() -> None:
    process = python("""
        import asyncio, resource
        import advisorchain.sync, anyio.from_thread  # a module cannot be imported without a file either
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = ChatClient(ScriptedModel(["works"]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            client.call_sync("?")
        except OSError as error:
            say(error.strerror)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        say(client.call_sync("?").text)
    """)
    try:
        out, _ = process.communicate(timeout=10)
    finally:
        process.kill()
    assert out.splitlines() == ["Too many open files", "works"]


def test_a_program_ends_although_the_background_loop_runs() -> None:
    process = python("""
        say(ChatClient(ScriptedModel(["bye"])).call_sync("?").text)
        stream = ChatClient(hangs).stream_sync("?")
        stream.__enter__()
    """)
    out, err = process.communicate(timeout=30)
    assert (out.splitlines()[0], err, process.returncode) == ("bye", "", 0)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_program_whose_names_were_resolved_ends_in_silence() -> None:
    """In the threads of the event loop's executor, which Python 3.12 lets nobody end by a thread at that time."""
    process = python(
        """
        import asyncio

        async def resolves(request):
            await asyncio.get_running_loop().getaddrinfo("localhost", 80)
            return ChatResponse(AssistantMessage(content="resolved"))

        say(ChatClient(resolves).call_sync("go").text)
        """
    )
    out, err = process.communicate(timeout=30)
    assert (out, err, process.returncode) == ("resolved\n", "", 0)


def test_in_a_simulated_jupyter_cell() -> None:
    """A kernel runs each cell as sync code inside its running loop, in the main thread; stopping it sends SIGINT."""
    assert interrupt("""
        import asyncio
        client = ChatClient(hangs)
        cells = [
            "client.call_sync('?')",
            "with ChatClient(ScriptedModel(['two'])).stream_sync('?') as s: say(''.join(s.text()))",
        ]

        async def kernel():
            for cell in cells:
                try:
                    exec(cell, globals())
                except KeyboardInterrupt:
                    say("interrupted")
                await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(kernel())
        loop.close()
    """) == ["cleaned up", "interrupted", "two"]
