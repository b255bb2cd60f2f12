"""The fixture ``aimock``: a real server of another project that plays the providers' protocols, @copilotkit/aimock.

Installed once with npm, see `node_packages`.
"""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import anyio
import pytest
from node_packages import missing, node_packages

if TYPE_CHECKING:
    from advisorchain import ChatClient

__all__ = ["Aimock", "address_of", "missing", "running_aimock"]

VERSION = "1.43.0"
STARTS_WITHIN = 30.0


class Aimock:
    """The running server: load what it shall answer, and read what it was asked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.openai_url = address + "/v1"
        self.anthropic_url = address

    def load(self, fixtures: Sequence[dict[str, Any]]) -> None:
        """Forget everything, the journal too, and answer by these fixtures from now on (the first match wins)."""
        self._ask("POST", "/__aimock/reset")
        self._ask("POST", "/__aimock/fixtures", {"fixtures": list(fixtures)})

    def delay(self, milliseconds: int) -> None:
        """Wait before every answer, until the next `load`."""
        self._ask("POST", "/__aimock/chaos", {"latencyMs": milliseconds})

    def journal(self) -> list[dict[str, Any]]:
        """Every request since `load`: ``headers``, ``body`` and ``response``."""
        return self._ask("GET", "/__aimock/journal")

    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of the requests since `load`."""
        return [entry["body"] for entry in self.journal()]

    def given_up(self) -> int:
        """How many answers of the session were cut short because the connection was closed."""
        with urllib.request.urlopen(self.address + "/metrics", timeout=10) as answer:
            text = answer.read().decode()
        counts = re.findall(r'^aimock_requests_total\{.*status="destroyed".*\} (\d+)$', text, re.MULTILINE)
        return sum(map(int, counts))

    async def gives_up(self, before: int) -> int:
        """Wait until the server has noticed that one more answer is not wanted: `given_up` was ``before``."""
        with anyio.fail_after(10):
            while (now := self.given_up()) == before:  # noqa: ASYNC110  # another process cannot set an event
                await anyio.sleep(0.02)
        return now

    async def loses_a_call(self, client: ChatClient, bodies: Sequence[Any]) -> None:
        """Cancel a call while the server thinks; it must notice. ``bodies``: what the client has sent, as it grows."""
        self.load([{"match": {"userMessage": "hello"}, "response": {"content": "late"}}])
        await client.call("hello")  # the connection is there, and the time is the server's
        self.delay(10_000)
        before, sent = self.given_up(), len(bodies)
        async with anyio.create_task_group() as group:
            group.start_soon(client.call, "hello")
            while len(bodies) == sent:  # noqa: ASYNC110  # a hook of the HTTP client cannot wait
                await anyio.sleep(0.01)
            await anyio.sleep(0.3)
            group.cancel_scope.cancel()
        assert await self.gives_up(before) == before + 1

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": "application/json"} if data else {}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"aimock: {method} {path}: {error.read().decode()}") from None


@contextlib.contextmanager
def running_aimock() -> Iterator[Aimock]:
    """Start the server, and stop it at the end."""
    with contextlib.ExitStack() as stack:
        command = ["node", str(_installed() / "node_modules/@copilotkit/aimock/dist/cli.js")]
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aimock-")))
        (folder / "none.json").write_text(
            '{"fixtures": [{"match": {"userMessage": "-"}, "response": {"content": "-"}}]}'
        )
        process = subprocess.Popen(
            [*command, "--port", "0", "--fixtures", str(folder), "--metrics"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        stack.callback(_stop, process)
        yield Aimock(address_of(process, STARTS_WITHIN))


@pytest.fixture(scope="session")
def aimock_server() -> Iterator[Aimock]:
    """One server for the session."""
    with running_aimock() as server:
        yield server


@pytest.fixture
def aimock(aimock_server: Aimock) -> Aimock:
    """The server, with no fixtures and an empty journal."""
    aimock_server.load([])
    return aimock_server


def address_of(process: subprocess.Popen[str], seconds: float) -> str:
    """The ``http://`` address in the output of a starting server; the rest of its output is read and dropped."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    assert process.stdout is not None
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    seen: list[str] = []
    try:
        while (line := lines.get(timeout=seconds)) is not None:
            seen.append(line)
            if found := re.search(r"http://[\w.]+:\d+", line):
                return found[0]
    except queue.Empty:
        pass
    raise RuntimeError(f"{process.args!r} did not start within {seconds:g} s:\n{''.join(seen)}")


def _installed() -> Path:
    return node_packages(f"aimock-{VERSION}", f"@copilotkit/aimock@{VERSION}")


def _read(output: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    with contextlib.suppress(ValueError):  # closed when the process is stopped
        for line in output:
            lines.put(line)
    lines.put(None)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say loudly what did not run because a server is missing."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[-1]) if isinstance(report.longrepr, tuple) else ""
        if " MISSING: " in reason:
            reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in reasons.items():
        terminalreporter.write_line(f"WARNING: {count} tests were NOT run. {reason}", yellow=True, bold=True)
