"""Type checkers agree with `tests/typing/api.py`: what should type-check does, what should be an error is one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
API = Path(__file__).parent / "typing" / "api.py"


def test_the_package_says_that_it_is_typed() -> None:
    """Without the marker, checkers ignore the hints of an installed package."""
    packages = [ROOT / "advisorchain", *ROOT.glob("plugins/*/advisorchain_*")]
    assert [package.name for package in packages if not (package / "py.typed").is_file()] == []


@pytest.mark.timeout(300)
def test_mypy(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--python-version", "3.11",
        "--enable-error-code", "ignore-without-code", "--cache-dir", str(tmp_path), "--config-file", "", str(API),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_pyright() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", str(API.parent)], cwd=ROOT, capture_output=True, text=True)
    report = json.loads(done.stdout)
    found = [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
    ]
    assert found == [] and report["summary"]["filesAnalyzed"] == 1, done.stderr
