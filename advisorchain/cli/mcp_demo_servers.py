"""The four servers of the MCP demo as child processes; one of them can be killed so that it stays dead."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ..errors import ConfigurationError
from ..mcp.server import McpServer
from .demo_texts import Language

TRAVEL, ORDERS, ACTIVITIES, USERS = "travel", "order", "activity", "user"
CONNECT_SECONDS = 60.0
"""Four interpreters start at once, perhaps on a slow machine."""

_CLASSES: dict[Language, tuple[str, str, str, str]] = {
    "en": ("TravelDesk", "OrderDesk", "ActivityDesk", "UserDesk"),
    "zh": ("TravelDeskInChinese", "OrderDeskInChinese", "ActivityDeskInChinese", "UserDesk"),
}
_PROGRAM = '''"""The activity server of the demo: our tools over MCP, in a few lines."""

import os
from pathlib import Path

import anyio

from advisorchain.cli.domain_desks import {kind}
from advisorchain.mcp.serving import serve_tools

Path(__file__).with_suffix(".pid").write_text(str(os.getpid()))
anyio.run(serve_tools, [{kind}()])
'''


class DemoServers:
    """The servers of the demo, all over stdio.

    Args:
        directory: a temporary one, in which they work and the program of the activity server lies.
        language: of what they say.
    """

    def __init__(self, directory: Path, language: Language) -> None:
        travel, orders, activities, users = _CLASSES[language]
        self._program = directory / "activity_server.py"
        self._program.write_text(_PROGRAM.format(kind=activities), encoding="utf-8")
        env = {name: os.environ[name] for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE") if name in os.environ}

        def server(name: str, *arguments: str, trusted: bool = False) -> McpServer:
            return McpServer.stdio(
                sys.executable, arguments, env=env, cwd=directory, name=name, trusted=trusted,
                connect_timeout=CONNECT_SECONDS,
            )  # fmt: skip

        def served(kind: str) -> tuple[str, ...]:
            return ("-m", "advisorchain.cli", "mcp", "serve", f"advisorchain.cli.{kind}")

        self.servers = [
            server(TRAVEL, *served(f"travel_desk:{travel}"), trusted=True),
            server(ORDERS, *served(f"domain_desks:{orders}")),
            server(ACTIVITIES, self._program.name),
            server(USERS, *served(f"domain_desks:{users}")),
        ]

    def kill(self) -> None:
        """Kill the activity server, and take away its program: it cannot start again.

        Raises:
            ConfigurationError: it does not run.
        """
        self._program.unlink(missing_ok=True)
        try:
            os.kill(int(self._program.with_suffix(".pid").read_text()), getattr(signal, "SIGKILL", signal.SIGTERM))
        except (OSError, ValueError) as exc:
            raise ConfigurationError("The activity server does not run, so it cannot be killed.") from exc
