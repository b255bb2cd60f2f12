"""``advisorchain mcp serve`` as its clients meet it: a process of its own, over stdin and stdout, and over HTTP."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from advisorchain import ConfigurationError
from advisorchain.audit import records
from advisorchain.mcp import serve_tools

pytestmark = pytest.mark.slow

TOOLS = '''
import os, subprocess, sys, time
import anyio
from advisorchain import ToolContext, ToolError, tool
from advisorchain.advisors import AuditAdvisor
from advisorchain.audit import JsonLinesSink

print("imported")


@tool
async def noisy(text: str) -> str:
    """Print everywhere, and read what is not there."""
    print("printed", flush=True)
    print("printed into the buffer")
    sys.__stdout__.write("kept reference")
    os.write(1, b"written")
    subprocess.run([sys.executable, "-c", "print('child')"], check=True)
    read = subprocess.run(["cat"], check=True, capture_output=True).stdout
    return f"{text} {sys.stdin.read()!r} {read!r}"


@tool
async def count(context: ToolContext) -> str:
    """Count slowly."""
    try:
        for step in range(1000):
            await context.progress(step, 1000)
            await anyio.sleep(0.05)
        return "done"
    finally:
        print("count ended", file=sys.stderr, flush=True)


@tool
def stuck() -> str:
    """Block a thread."""
    print("stuck", file=sys.stderr, flush=True)
    time.sleep(60)
    return ""


@tool
async def plain() -> str:
    """Do little."""
    return "plain"


@tool(description="Half \\ud83d.", title="Half \\ud83d")
async def halves(context: ToolContext) -> str:
    await context.progress(1, 2, "half \\ud83d")
    raise ToolError("half \\ud83d")


TOOLS = [noisy, count, stuck, plain, halves]
AUDIT = [AuditAdvisor(JsonLinesSink("audit.jsonl"))]
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "desk_tools.py").write_text(TOOLS)
    return tmp_path


ARGUMENTS = ["-m", "advisorchain.cli", "mcp", "serve", "desk_tools:TOOLS"]


@contextmanager
def process(folder: Path, *more: str, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """A server that is killed at the end if it still runs."""
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen([sys.executable, *ARGUMENTS, *more], cwd=folder, text=True, **{**streams, **settings})
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        for stream in (running.stdin, running.stdout, running.stderr):
            if stream is not None:
                stream.close()


def send(running: subprocess.Popen[str], method: str, number: int | None = None, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
    assert running.stdin is not None
    running.stdin.write(json.dumps(message) + "\n")
    running.stdin.flush()


def receive(running: subprocess.Popen[str]) -> Any:
    assert running.stdout is not None
    return json.loads(running.stdout.readline())


def hello(running: subprocess.Popen[str]) -> None:
    client = {"name": "raw", "version": "1"}
    send(running, "initialize", 1, protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
    assert receive(running)["result"]["serverInfo"]["name"] == "advisorchain"
    send(running, "notifications/initialized")


async def test_a_client_starts_it_and_calls(mode: str, folder: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=[*ARGUMENTS, "--advisors", "desk_tools:AUDIT"], cwd=folder
    )
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    with anyio.fail_after(60):
        async with Client(server, mode=mode) as client:
            names = [each.name for each in (await client.list_tools()).tools]
            assert names == ["noisy", "count", "stuck", "plain", "halves"]
            result = await client.call_tool("noisy", {"text": "hello"})
            assert result.content[0].text == "hello '' b''"
            with anyio.move_on_after(1):
                await client.call_tool("count", {}, progress_callback=on_progress)
            again = await client.call_tool("noisy", {"text": "again"})
            assert again.content[0].text == "again '' b''"

    assert seen
    kept = [record for record in records(folder / "audit.jsonl") if record["kind"] == "tool"]
    audited = [(record["tool"], record["outcome"]) for record in kept]
    assert audited == [("noisy", "ok"), ("count", "cancelled"), ("noisy", "ok")]


async def test_a_program_serves_under_either_loop(anyio_backend: str, mode: str, folder: Path) -> None:
    program = (
        "from functools import partial\nimport anyio\nfrom advisorchain.mcp import serve_tools\nimport desk_tools\n"
        f"anyio.run(partial(serve_tools, desk_tools.TOOLS, name='program'), backend={anyio_backend!r})\n"
        "print('after')\n"
    )
    server = StdioServerParameters(command=sys.executable, args=["-c", program], cwd=folder)
    with anyio.fail_after(60):
        async with Client(server, mode=mode) as client:
            result = await client.call_tool("noisy", {"text": "hello"})

    assert result.content[0].text == "hello '' b''"


@pytest.mark.parametrize("name", ["stdin", "stdout"])
async def test_without_real_streams_it_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, name, io.StringIO())
    with pytest.raises(ConfigurationError, match="real standard input and output"):
        await serve_tools([])


def test_nothing_but_the_protocol_is_on_stdout(folder: Path) -> None:
    with process(folder) as running:
        hello(running)
        send(running, "tools/call", 2, name="noisy", arguments={"text": "hi"})
        assert receive(running)["result"]["content"][0]["text"] == "hi '' b''"
        out, err = running.communicate(timeout=30)

    assert running.returncode == 0
    assert out == ""
    for said in ("imported", "printed", "printed into the buffer", "kept reference", "written", "child"):
        assert said in err


def test_malformed_messages_do_not_end_it(folder: Path) -> None:
    with process(folder) as running:
        hello(running)
        assert running.stdin is not None
        for line in ("{", "[]", '"x"', '{"jsonrpc": "2.0"}', "\x00", "€ü", ""):
            running.stdin.write(line + "\n")
        send(running, "ping", 7)
        answers = [receive(running)]
        while answers[-1].get("id") != 7:
            answers.append(receive(running))
        running.stdin.write('{"jsonrpc": "2.0"')  # ends in the middle
        out, err = running.communicate(timeout=30)

    assert answers[-1]["result"] == {}
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    assert "Traceback" not in err
    assert running.returncode == 0


def test_half_an_emoji_from_the_client_costs_no_call(folder: Path) -> None:
    with process(folder) as running:
        hello(running)
        send(running, "tools/call", 2, name="noisy", arguments={"text": "half \ud83d whole \U0001f600"})
        assert receive(running)["result"]["content"][0]["text"].startswith("half \ufffd whole \U0001f600 ")


def test_what_cannot_be_written_does_not_end_it(folder: Path) -> None:
    with process(folder) as running:
        hello(running)
        send(running, "tools/list", 2)
        assert receive(running)["result"]["tools"][-1]["description"] == "Half ?."
        send(running, "tools/call", 3, name="halves", arguments={}, _meta={"progressToken": 5})
        assert receive(running)["params"]["message"] == "half ?"
        assert receive(running)["result"]["content"][0]["text"] == "half ?"
        send(running, "ping", 4)
        assert receive(running)["result"] == {}


def test_a_client_that_goes_ends_a_running_call(folder: Path) -> None:
    with process(folder) as running:
        hello(running)
        send(running, "tools/call", 2, name="count", arguments={}, _meta={"progressToken": 5})
        assert receive(running)["params"]["progressToken"] == 5
        _, err = running.communicate(timeout=30)

    assert running.returncode == 0
    assert "count ended" in err
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("tool", [None, "count"])
def test_a_signal_ends_it_over_stdio(folder: Path, signum: int, code: int, tool: str | None) -> None:
    with process(folder) as running:
        hello(running)
        if tool is not None:
            send(running, "tools/call", 2, name=tool, arguments={}, _meta={"progressToken": 5})
            receive(running)
        start = time.monotonic()
        running.send_signal(signum)
        assert running.wait(20) == code
        seconds = time.monotonic() - start
        assert running.stderr is not None
        err = running.stderr.read()

    assert "Traceback" not in err
    assert ("count ended" in err) is (tool is not None)
    assert seconds < 10


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_tool_that_cannot_be_stopped_does_not_keep_it(folder: Path) -> None:
    with process(folder) as running:
        hello(running)
        send(running, "tools/call", 2, name="stuck", arguments={})
        assert running.stderr is not None
        while "stuck" not in running.stderr.readline():
            pass
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
        assert "Traceback" not in running.stderr.read()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_over_http(mode: str, folder: Path, signum: int, code: int) -> None:
    more = ("--transport", "http", "--port", "0", "--token-env", "DESK_TOKEN")
    said = folder / "stderr.txt"
    with said.open("w") as stream:
        settings: dict[str, Any] = {"stderr": stream, "env": {**os.environ, "DESK_TOKEN": "s3cret"}}
        with process(folder, *more, **settings) as running:
            while not (found := re.search(r"serving at (http://[\w.:]+/mcp);", said.read_text())):
                assert running.poll() is None
                time.sleep(0.05)
            anyio.run(_use_and_end, found[1], mode, running, signum)
            assert running.wait(20) == code

    assert "Traceback" not in said.read_text()
    assert "count ended" in said.read_text()
    assert "s3cret" not in said.read_text()


async def _use_and_end(url: str, mode: str, running: subprocess.Popen[str], signum: int) -> None:
    """Call, and let the signal come while a call runs and the client listens."""
    started = anyio.Event()

    async def on_progress(*report: Any) -> None:
        started.set()

    async with httpx2.AsyncClient() as http:
        assert (await http.post(url, json={})).status_code == 401
    async with (
        httpx2.AsyncClient(headers={"Authorization": "Bearer s3cret"}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        result = await client.call_tool("plain", {})
        assert result.content[0].text == "plain"
        async with anyio.create_task_group() as group:
            group.start_soon(_call_until_it_ends, client, on_progress)
            with anyio.fail_after(20):
                await started.wait()
            running.send_signal(signum)
            with anyio.fail_after(20):
                await anyio.to_thread.run_sync(running.wait)
            group.cancel_scope.cancel()


async def _call_until_it_ends(client: Client, on_progress: Any) -> None:
    with contextlib.suppress(MCPError):
        await client.call_tool("count", {}, progress_callback=on_progress)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--transport", "http", "--host", "0.0.0.0"], 1, "token_verifier"),
        (
            ["--transport", "http", "--token-env", "NOT_SET_ANYWHERE"],
            2,
            "'NOT_SET_ANYWHERE': this environment variable",
        ),
        (["--token-env", "HOME"], 2, "--transport http"),
        (["desk_tools:NOTHING"], 1, "tools 'desk_tools:NOTHING': desk_tools has no 'NOTHING'"),
        (["desk_tools"], 2, "write module:object"),
        (["--advisors", "desk_tools:NOTHING"], 1, "--advisors 'desk_tools:NOTHING'"),
        (["--advisors", "desk_tools:TOOLS"], 1, "Advisor 'noisy' has no order"),
    ],
)
def test_a_wrong_command_line_is_one_line(folder: Path, more: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, *ARGUMENTS, *more], cwd=folder, capture_output=True, text=True, timeout=60, input=""
    )
    assert done.returncode == code
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line != "imported"]
    assert line.startswith("error: ")
    assert said in line


def test_the_command_line_imports_no_mcp_sdk_before_it_serves(folder: Path) -> None:
    script = (
        "import sys\nfrom advisorchain.cli import app\nfrom advisorchain.mcp import serving\n"
        "assert not {'mcp', 'mcp_types', 'starlette', 'uvicorn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
