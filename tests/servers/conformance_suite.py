"""The official MCP conformance suite, ``@modelcontextprotocol/conformance``, run with a Node that it accepts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from node_packages import node_packages

NODE = "22"  # the suite needs at least this one; npm brings it
RELEASED = "0.1.16"
"""Knows the protocols up to 2025-11-25."""
MODERN = "0.2.0-alpha.12"
"""Knows 2026-07-28 too."""


class Outcome(NamedTuple):
    """What a run of the suite gave; ``checks`` by scenario: every check with id, status and error message."""

    code: int
    output: str
    checks: dict[str, list[dict[str, Any]]]

    def failed(self, scenario: str) -> set[str]:
        """The ids of the checks that failed in a scenario, or passed with a warning only."""
        return {check["id"] for check in self.checks[scenario] if check["status"] in ("FAILURE", "WARNING")}


def run_suite(version: str, *arguments: str, results: Path, seconds: float = 300.0) -> Outcome:
    """Run ``conformance ARGUMENTS``; the details of every scenario are read from the empty folder ``results``."""
    folder = node_packages(f"mcp-conformance-{version}", f"node@{NODE}", f"@modelcontextprotocol/conformance@{version}")
    modules = folder / "node_modules"
    command = [
        str(modules / "node/bin/node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js"), *arguments
    ]  # fmt: skip
    done = subprocess.run(
        [*command, "-o", str(results)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds
    )
    checks: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(results.rglob("checks.json")):
        # A folder is named server-SCENARIO-TIME; a client's only SCENARIO-TIME, and auth/SCENARIO-TIME is two deep.
        folder_name = path.parent.relative_to(results).as_posix()
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder_name).removeprefix("server-")
        checks.setdefault(name, []).extend(json.loads(path.read_text()))
    return Outcome(done.returncode, done.stdout, checks)


def listed_scenarios(version: str, side: str) -> dict[str, set[str]]:
    """The scenarios for ``side`` (``"Client"``, ``"Server"``) that the suite lists, with the protocols they are for."""
    done = subprocess.run([*_command(version), "list"], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    section = done.stdout.partition(f"{side} scenarios (")[2].partition("\n\n")[0]
    return {
        name: set(re.split(r", ?", versions)) for name, versions in re.findall(r"^  - (\S+) \[(.*)\]$", section, re.M)
    }


def _command(version: str) -> list[str]:
    folder = node_packages(f"mcp-conformance-{version}", f"node@{NODE}", f"@modelcontextprotocol/conformance@{version}")
    modules = folder / "node_modules"
    return [str(modules / "node/bin/node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js")]
