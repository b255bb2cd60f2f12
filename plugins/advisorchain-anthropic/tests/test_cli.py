"""The model by its name: on the command line, and as a plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from advisorchain import ConfigurationError, plugins
from advisorchain_anthropic import AnthropicModel

if TYPE_CHECKING:
    from aimock import Aimock


def test_on_the_command_line(aimock: Aimock) -> None:
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "Good morning."}}])
    environment = {**os.environ, "ANTHROPIC_BASE_URL": aimock.anthropic_url, "ANTHROPIC_API_KEY": "k"}
    command = [sys.executable, "-m", "advisorchain.cli", "run", "--model", "anthropic:claude-sonnet-5", "hello"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, text=True)
    assert done.returncode == 0 and "Good morning." in done.stdout, done.stdout + done.stderr
    assert aimock.journal()[0]["body"]["model"] == "claude-sonnet-5"


def test_as_a_plugin() -> None:
    model = plugins.load("models", "anthropic", model="claude-sonnet-5", api_key="k", cache=True)
    assert isinstance(model, AnthropicModel) and model.name == "claude-sonnet-5"
    with pytest.raises(ConfigurationError, match="cache"):
        plugins.load("models", "anthropic", model="claude-sonnet-5", api_key="k", cache="nowhere")
