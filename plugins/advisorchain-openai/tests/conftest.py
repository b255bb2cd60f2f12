"""The model under test, against the running aimock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from aimock import Aimock


@pytest.fixture
def api_key() -> str:
    return "sk-very-secret-1234"


@pytest.fixture
async def model(aimock: Aimock, api_key: str) -> AsyncIterator[OpenAIModel]:
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, api_key=api_key) as model:
        yield model
