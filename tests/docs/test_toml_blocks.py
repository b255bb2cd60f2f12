"""Every TOML block of README and docs that is a configuration is one: it loads, and fits the schema."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from advisorchain import ConfigurationError
from advisorchain.config import ConfigFile, json_schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), *sorted(ROOT.glob("plugins/*/README.md"))]

_BLOCK = re.compile(r"^( *)```toml\n(.*?)^ *```$", re.M | re.S)
_VARIABLE = re.compile(r"\$\{([A-Z_]+)\}")


def configuration(text: str) -> dict[str, Any] | None:
    """The tables of a configuration; None for another kind of file, for example that of a project."""
    data = tomllib.loads(text)
    tool = data.get("tool", {})
    if isinstance(tool, dict) and "advisorchain" in tool:
        table: dict[str, Any] = tool["advisorchain"]
        return table
    return None if data.keys() & {"project", "build-system", "tool", "dependency-groups"} else data


def blocks() -> list[Any]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in _BLOCK.finditer(text):
            line = text[: block.start()].count("\n") + 1
            body = re.sub(rf"^{block[1]}", "", block[2], flags=re.M)
            if configuration(body) is not None:
                found.append(pytest.param(body, id=f"{page.relative_to(ROOT)}:{line}"))
    return found


BLOCKS = blocks()


def test_there_are_some() -> None:
    assert len(BLOCKS) >= 7


def variable(name: str) -> str:
    return "redis://localhost:6379/0" if name.endswith("_URL") else "true"


@pytest.mark.parametrize("text", BLOCKS)
def test_a_configuration_of_the_docs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")
    table = configuration(text)
    assert table is not None
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(json_schema()).iter_errors(table)]
    assert errors == []
    if "model" not in table and "chains" not in table and not text.lstrip().startswith("[tool."):
        text = f'model = "keyword"\n{text}'  # a part of a file
    (tmp_path / "prompt.md").write_text("Be brief.")
    servers = {"mcpServers": {"files": {"command": "python", "args": ["-V"]}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    name = "pyproject.toml" if "[tool.advisorchain" in text else "advisorchain.toml"
    (tmp_path / name).write_text(text)
    file = ConfigFile(tmp_path / name, environ={found: variable(found) for found in _VARIABLE.findall(text)})
    for chain in file.chains:
        client = file.client(chain)
        assert client.explain()
        client.close()


def test_a_wrong_block_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('model = "keyword"\n[[advisors]]\nuse = "retry"\nattempts = 3')
    with pytest.raises(ConfigurationError, match=r"a\.toml:4: advisors\[0\]\.attempts"):
        ConfigFile(tmp_path / "a.toml").client()
