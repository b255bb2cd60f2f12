"""How the tests of configuration files write and load them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from advisorchain import ChatClient, ConfigurationError
from advisorchain.config import ConfiguredClient

Load = Callable[..., ConfiguredClient]
Refused = Callable[..., str]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """The client of a file with this text."""

    def loaded(text: str, chain: str | None = None, name: str = "advisorchain.toml") -> ConfiguredClient:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return ChatClient.from_config(tmp_path / name, chain)

    return loaded


@pytest.fixture
def refused(load: Load, tmp_path: Path) -> Refused:
    """Why a file with this text is refused, without its directory."""

    def told(text: str, chain: str | None = None, name: str = "advisorchain.toml") -> str:
        with pytest.raises(ConfigurationError) as caught:
            load(text, chain, name)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return told
