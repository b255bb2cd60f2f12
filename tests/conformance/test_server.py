"""The official conformance suite against tools of ours, as ``advisorchain mcp serve`` serves them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aimock import address_of
from conformance_suite import MODERN, RELEASED, run_suite

HERE = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "advisorchain.cli", "mcp", "serve", "conformance_tools:TOOLS"]
    process = subprocess.Popen(
        [*command, "--transport", "http", "--port", "0"],
        cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield address_of(process, 60) + "/mcp"
    finally:
        process.terminate()
        assert process.wait(20) == 0
        if process.stdout is not None:
            process.stdout.close()


def expected(name: str, side: str) -> set[str]:
    """The scenarios that an expected-failures file lists for ``side``."""
    text = (HERE / name).read_text().partition(f"{side}:\n")[2]
    return set(re.findall(r"^  - (\S+)$", re.split(r"^\w+:", text, flags=re.M)[0], re.M))


def test_protocols_up_to_2025_11_25(url: str, tmp_path: Path) -> None:
    known = HERE / "expected-failures.yml"
    outcome = run_suite(RELEASED, "server", "--url", url, "--expected-failures", str(known), results=tmp_path)

    assert outcome.code == 0, outcome.output
    passed = {name for name in outcome.checks if not outcome.failed(name)}
    assert passed == {
        "server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
        "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress",
        "json-schema-2020-12", "server-sse-multiple-streams", "server-sse-polling", "dns-rebinding-protection",
    } & outcome.checks.keys()  # fmt: skip
    assert len(passed) >= 12
    assert outcome.checks.keys() - passed == expected(known.name, "server")


def test_protocol_2026_07_28(url: str, tmp_path: Path) -> None:
    known = HERE / "expected-failures-2026-07-28.yml"
    outcome = run_suite(
        MODERN, "server", "--url", url, "--requirements", "2026-07-28", "--expected-failures", str(known),
        results=tmp_path,
    )  # fmt: skip

    assert outcome.code == 0, outcome.output
    failed = {name for name in outcome.checks if outcome.failed(name)}
    extensions = {name for name in failed if name.startswith("tasks-")}  # not required, not scored, not offered
    assert failed - extensions == expected(known.name, "server")
    # Of these most checks concern us, and those hold.
    assert outcome.failed("server-stateless") == {
        "sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"
    }  # fmt: skip
    assert outcome.failed("caching") == {
        "sep-2549-prompts-list-caching-hints", "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
    }  # fmt: skip
    changes = {check["id"]: check["status"] for check in outcome.checks["server-stateless"]}
    assert changes["sep-2575-server-sends-tools-list-changed-on-subscription"] == "SUCCESS"


@pytest.mark.parametrize(
    "scenario", ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"]
)
def test_scenarios_beyond_the_requirements(url: str, tmp_path: Path, scenario: str) -> None:
    arguments = ("--scenario", scenario, "--spec-version", "2026-07-28")
    outcome = run_suite(MODERN, "server", "--url", url, *arguments, results=tmp_path)

    assert outcome.code == 0, outcome.output
    assert all(check["status"] in ("SUCCESS", "INFO", "SKIPPED") for check in outcome.checks[scenario])
