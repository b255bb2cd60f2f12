"""A real trace viewer of another project, arize-phoenix, in an environment of its own.

Installed once with uv or pip, about 650 MB; a tool of the tests, no dependency. `pytest -m phoenix` needs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSION = "20.26.1"
STARTS_WITHIN = 90.0


class Phoenix:
    """The running viewer."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.traces_url = f"{address}/v1/traces"

    def spans(self, project: str, count: int) -> list[dict[str, Any]]:
        """The spans of a project, when there are as many."""
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(urllib.error.HTTPError):  # 404 until the first has come
                url = f"{self.address}/v1/projects/{project}/spans?limit=500"
                with urllib.request.urlopen(url, timeout=10) as answer:
                    found: list[dict[str, Any]] = json.load(answer)["data"]
                if len(found) >= count:
                    return found
            if time.monotonic() > until:
                raise AssertionError(f"Phoenix has not got {count} spans of {project!r}")
            time.sleep(0.2)


def _environment() -> Path:
    """The Python of its environment, made when it is not there."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "advisorchain-tests"
    place = home / f"phoenix-{VERSION}-{sys.version_info.major}.{sys.version_info.minor}"
    if (place / "complete").exists():
        return place / "bin"
    shutil.rmtree(place, ignore_errors=True)
    uv = shutil.which("uv")
    package = f"arize-phoenix=={VERSION}"
    if uv is not None:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), package]
    else:
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", package]
    subprocess.run(install, check=True, timeout=900)
    (place / "complete").touch()
    return place / "bin"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def running_phoenix() -> Iterator[Phoenix]:
    """Started, and ended at the end."""
    programs = _environment()
    port, grpc_port = _free_ports(2)
    with tempfile.TemporaryDirectory() as directory:
        settings = {
            "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc_port),
            "PHOENIX_TELEMETRY_ENABLED": "false", "PHOENIX_WORKING_DIR": directory,
        }  # fmt: skip
        log = Path(directory) / "log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [str(programs / "phoenix"), "serve"], env={**os.environ, **settings}, stdout=out, stderr=out
            )
        try:
            address, until = f"http://127.0.0.1:{port}", time.monotonic() + STARTS_WITHIN
            while True:
                try:
                    with urllib.request.urlopen(f"{address}/healthz", timeout=5):
                        break
                except OSError:
                    if process.poll() is not None or time.monotonic() > until:
                        raise AssertionError(f"Phoenix does not start:\n{log.read_text()[-2000:]}") from None
                    time.sleep(0.3)
            yield Phoenix(address)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
