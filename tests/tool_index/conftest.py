"""Tools for the indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from advisorchain import Tool

MakeTool = Callable[..., Tool]


@pytest.fixture
def make_tool() -> MakeTool:
    async def handle(arguments: dict[str, Any]) -> None:
        return None

    def make(name: str, description: str = "", **settings: Any) -> Tool:
        return Tool.from_schema(name, handle, description=description or name, **settings)

    return make
