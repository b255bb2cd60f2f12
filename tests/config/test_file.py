"""Reading a file: what cannot be one is refused in one sentence, before anything is imported."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from advisorchain import ChatClient, ConfigurationError


def test_a_minimal_file(load: Any, run: Any) -> None:
    client = load('model = "keyword"\n')
    assert type(client.model).__name__ == "KeywordModel"


def test_a_pyproject(load: Any, refused: Any) -> None:
    text = '[project]\nname = "x"\n[tool.advisorchain]\nmodel = "keyword"\n'
    assert type(load(text, name="pyproject.toml").model).__name__ == "KeywordModel"
    assert refused("[project]\n", name="pyproject.toml") == "pyproject.toml: there is no table [tool.advisorchain]."
    told = refused(text + "modell = 1\n", name="pyproject.toml")
    assert told == "pyproject.toml:5: modell: unknown key; did you mean 'model'?"


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes('\ufeffmodel = "keyword"\r\nmodell = 1\r\n'.encode())
    with pytest.raises(ConfigurationError, match=r"a\.toml:2: modell: unknown key"):
        ChatClient.from_config(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"model = '\xff'")
    for path, told in (
        (tmp_path / "nothing.toml", "the configuration file cannot be read: No such file or directory."),
        (tmp_path, "the configuration file is not a plain file."),
        (tmp_path / "binary", "the configuration file is not UTF-8 (byte 9)."),
        ("a\0b", "the configuration file cannot be read: "),
        (17, "A configuration is a file: from_config('advisorchain.toml'), not 17."),
    ):
        with pytest.raises(ConfigurationError) as caught:
            ChatClient.from_config(path)  # type: ignore[arg-type]
        assert told in str(caught.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="not a plain file"):
        ChatClient.from_config(tmp_path / "pipe")


def test_a_large_file_is_refused_before_it_is_parsed(refused: Any) -> None:
    text = "a = 1\n" + "#" * 10_000_000
    start = time.process_time()
    assert refused(text) == "advisorchain.toml: the configuration file is larger than 1,000,000 bytes."
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    "line",
    [
        "key_{} = 1\n",
        '[[advisors]]\nuse = "no_{}"\n',
        '[[advisors]]\nuse = "retry"\nmdl_{} = 1\n',
        "[mcp.a{}]\nx = 1\n",
        "[mcp.a{}]\ntrusted = true\n",
        'chains.a{}.model = "keyword"\n',
    ],
)
def test_a_file_full_of_problems_is_not_looked_through(refused: Any, line: str) -> None:
    text, number = ['model = "keyword"\n'], 0
    while number * len(line) < 300_000 and (number < 1000 or not line.startswith("[")):  # more entries are refused
        text.append(line.format(number))
        number += 1
    start = time.process_time()
    told = refused("".join(text), "nothing" if "chains" in line else None)
    assert time.process_time() - start < 10
    assert len(told.splitlines()) <= 22
    if "chains" not in line:
        assert told.startswith("100 problems or more in advisorchain.toml:\n") and told.endswith("… and 80 more")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "model = \n\nb = " + "[" * 100_000,
            "advisorchain.toml: this is no TOML: Invalid value (at line 1, column 9).",
        ),
        ("\n\nb = " + "[" * 100_000, "advisorchain.toml:3: this nests deeper than 32 levels."),
        ("b = " + "9" * 10_000, "advisorchain.toml: this is no TOML: Exceeds the limit"),
        ("model = 'a'\nmodel = 'b'", "advisorchain.toml: this is no TOML: Cannot overwrite a value"),
    ],
)
def test_what_is_no_toml(refused: Any, text: str, told: str) -> None:
    assert refused(text).startswith(told)


def test_a_file_is_not_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "advisorchain.toml").write_text("nonsense")
    monkeypatch.chdir(tmp_path)
    from advisorchain.models import KeywordModel

    ChatClient(KeywordModel())  # nothing reads it
    with pytest.raises(TypeError):
        ChatClient.from_config()  # type: ignore[call-arg]


async def test_the_system_text_of_a_file_stands_beside_the_configuration(
    load: Any, refused: Any, tmp_path: Path
) -> None:
    (tmp_path / "prompt.md").write_text("Say ${HOME} as it is.")
    client = load('model = "keyword"\nsystem = {file = "prompt.md"}')
    response = await client.call("Hello")
    assert response.request.messages[0].text == "Say ${HOME} as it is."
    told = refused('model = "keyword"\nsystem = {file = "none.md"}')
    assert told.startswith("advisorchain.toml:2: system.file: 'none.md': the system text cannot be read: No such file")
    assert "must be a text" in refused('model = "keyword"\nsystem = 3')
