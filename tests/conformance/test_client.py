"""The official conformance suite against our client side: `client.py`, which goes through ``McpTools``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conformance_suite import MODERN, RELEASED, Outcome, listed_scenarios, run_suite

HERE = Path(__file__).parent
CLIENT = f"{sys.executable} {HERE / 'client.py'}"
MILLISECONDS = "60000"
ON_TIME = "client-sse-retry-timing"
"""Warns when the client reconnects a little late, as it does on a busy machine."""

RELEASED_SCENARIOS = (
    "initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", "auth/metadata-default",
    "auth/scope-step-up", "auth/token-endpoint-auth-basic", "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
)  # fmt: skip
"""What only these protocols have, and of the rest of ``auth/``, which the newer protocol repeats, a sample."""
EXTENSIONS = ("auth/client-credentials-basic", "auth/client-credentials-jwt")
"""Extensions for which the SDK has something for ``auth=``."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def expected_failures(name: str) -> set[str]:
    """The scenarios that an expected-failures file lists for a client."""
    text = (HERE / name).read_text().partition("client:\n")[2]
    return set(re.findall(r"^  - (\S+)$", text, re.M))


def run_scenarios(version: str, scenarios: Iterable[str], results: Path, *arguments: str) -> dict[str, Outcome]:
    """Each scenario alone: all at once, as the suite would do it, they starve each other."""

    def run(scenario: str) -> Outcome:
        folder = results / scenario.replace("/", "-")
        folder.mkdir(parents=True)
        spec = arguments if scenario not in EXTENSIONS else ()
        return run_suite(
            version, "client", "--command", CLIENT, "--scenario", scenario, "--timeout", MILLISECONDS, *spec,
            results=folder,
        )  # fmt: skip

    scenarios = list(scenarios)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(scenarios, pool.map(run, scenarios), strict=True))


def failed(outcomes: dict[str, Outcome]) -> dict[str, str]:
    """Those in which a check failed, or nothing was checked."""
    return {
        scenario: outcome.output
        for scenario, outcome in outcomes.items()
        if outcome.failed(scenario) - {ON_TIME}
        or not any(check["status"] == "SUCCESS" for check in outcome.checks[scenario])
    }


def test_protocols_up_to_2025_11_25(tmp_path: Path) -> None:
    outcomes = run_scenarios(RELEASED, RELEASED_SCENARIOS, tmp_path)

    wrong = failed(outcomes)
    assert wrong.keys() == expected_failures("expected-failures.yml"), wrong


def test_protocol_2026_07_28(tmp_path: Path) -> None:
    scenarios = [name for name, versions in listed_scenarios(MODERN, "Client").items() if "2026-07-28" in versions]
    assert len(scenarios) >= 33
    outcomes = run_scenarios(MODERN, [*scenarios, *EXTENSIONS], tmp_path, "--spec-version", "2026-07-28")

    wrong = failed(outcomes)
    assert wrong.keys() == expected_failures("expected-failures-2026-07-28.yml"), wrong
    headers = outcomes["http-custom-headers"].checks["http-custom-headers"]
    assert len([check for check in headers if check["status"] == "SUCCESS"]) == 18
