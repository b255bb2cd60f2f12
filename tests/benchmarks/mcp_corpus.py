"""The tools of 16 reference servers of the Model Context Protocol, asked for once and kept in the cache of the tests.

The servers come from npm and PyPI and are listed by `McpTools`; most of them want a key before they start, and none of
them is called.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "servers"))
from node_packages import cached, node_packages

from advisorchain import ChatClient
from advisorchain.mcp import McpServer, McpTools, RemoteTool, Sampling
from advisorchain.testing import ScriptedModel

NPM = {
    "everything": "2026.8.31", "memory": "2026.8.31", "sequential-thinking": "2026.8.31", "filesystem": "2026.8.31",
    "github": "2025.4.8", "gitlab": "2025.4.25", "slack": "2025.4.25", "google-maps": "0.6.2", "puppeteer": "2025.5.12",
    "brave-search": "0.6.2", "everart": "0.6.2", "aws-kb-retrieval": "0.6.2", "postgres": "0.6.2",
}  # fmt: skip
PYPI = ("fetch", "git", "time")
KEYS = (
    "GITHUB_PERSONAL_ACCESS_TOKEN", "GITLAB_PERSONAL_ACCESS_TOKEN", "SLACK_BOT_TOKEN", "SLACK_TEAM_ID",
    "GOOGLE_MAPS_API_KEY", "BRAVE_API_KEY", "EVERART_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
)  # fmt: skip


def reference_tools() -> list[dict[str, Any]]:
    """Every tool: ``server``, ``name``, ``description`` and ``input_schema``."""
    kept = cached("mcp-reference-tools-1.json")
    if not kept.exists():
        tools = anyio.run(_listed)
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(tools), encoding="utf-8")
        fresh.replace(kept)
    found: list[dict[str, Any]] = json.loads(kept.read_text(encoding="utf-8"))
    return found


async def _listed() -> list[dict[str, Any]]:
    os.environ.setdefault("PUPPETEER_SKIP_DOWNLOAD", "1")  # its browser is never started
    packages = [f"@modelcontextprotocol/server-{name}@{version}" for name, version in NPM.items()]
    modules = node_packages("mcp-reference-servers-1", *packages) / "node_modules" / ".bin"
    scratch = Path(tempfile.mkdtemp(prefix="advisorchain-benchmark-"))
    try:
        await anyio.run_process(["git", "init", "-q", str(scratch)])
        arguments = {
            "filesystem": [str(scratch)],
            "postgres": ["postgresql://localhost/none"],
            "git": ["--repository", str(scratch)],
        }
        env = {**os.environ, **dict.fromkeys(KEYS, "x")}  # uvx needs to know where packages come from
        commands = {name: [str(modules / f"mcp-server-{name}")] for name in NPM}
        commands |= {name: ["uvx", f"mcp-server-{name}"] for name in PYPI}
        servers = [
            McpServer.stdio(
                command[0], [*command[1:], *arguments.get(name, [])], env=env, name=name, era="legacy",
                connect_timeout=120, list_timeout=60, roots=[scratch], elicitation=_nobody,
                sampling=Sampling(ChatClient(ScriptedModel([]))),
            )
            for name, command in commands.items()
        ]  # fmt: skip
        async with McpTools(servers, pinning=False) as tools:
            found = [tool for tool in await tools.listed() if isinstance(tool, RemoteTool)]
            failed = [status for status in tools.status() if status.error is not None]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if failed:
        raise RuntimeError("; ".join(f"{status.name}: {status.error}" for status in failed))
    return [
        {
            "server": tool.source,
            "name": tool.listed.name,
            "description": tool.listed.description,
            "input_schema": dict(tool.input_schema),
        }
        for tool in found
    ]


async def _nobody(question: Any) -> None:
    return None
