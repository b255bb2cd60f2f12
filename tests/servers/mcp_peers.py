"""MCP servers that others wrote, from npm: ``server-everything``, ``server-filesystem`` and ``server-memory``."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Literal

from node_packages import node_packages

Peer = Literal["everything", "filesystem", "memory"]

VERSION = "2026.8.31"
STARTS_WITHIN = 30.0


def peer_script(peer: Peer) -> str:
    """The script that ``node`` runs; the packages are installed if they must be."""
    folder = node_packages(
        f"mcp-servers-{VERSION}",
        *[f"@modelcontextprotocol/server-{name}@{VERSION}" for name in ("everything", "filesystem", "memory")],
    )
    return str(folder / f"node_modules/@modelcontextprotocol/server-{peer}/dist/index.js")


@contextlib.contextmanager
def everything_over_http() -> Iterator[str]:
    """The URL of a running ``server-everything`` behind streamable HTTP."""
    port = _free_port()
    process = subprocess.Popen(
        ["node", peer_script("everything"), "streamableHttp"],
        env={"PATH": os.environ["PATH"], "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for(f"http://127.0.0.1:{port}/mcp", process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError as answer:  # it refuses a request without a session: it is there
            answer.close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"server-everything did not answer at {url} within {STARTS_WITHIN:g} s")
