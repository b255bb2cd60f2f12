"""`check_shared_state`: our state keeps the contract, and every rule of it is one that can be broken."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain.shared_state import InMemorySharedState
from advisorchain.testing import check_shared_state


async def test_the_one_in_memory() -> None:
    await check_shared_state(InMemorySharedState)


class Base:
    """A right one, to be broken."""

    def __init__(self) -> None:
        self.inner = InMemorySharedState()

    async def load(self, key: str) -> Any:
        return await self.inner.load(key)

    async def save(self, key: str, value: Any, version: int) -> Any:
        return await self.inner.save(key, value, version)


class MissingIsEmpty(Base):
    async def load(self, key: str) -> Any:
        found = await super().load(key)
        return ({}, 0) if found == (None, 0) else found


class AnyVersion(Base):
    async def save(self, key: str, value: Any, version: int) -> Any:
        return await super().save(key, value, (await self.inner.load(key))[1])


class VersionStays(Base):
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def load(self, key: str) -> Any:
        return (dict(self.values[key]), 1) if key in self.values else (None, 0)

    async def save(self, key: str, value: Any, version: int) -> Any:
        if version != (key in self.values):
            return False
        self.values[key] = dict(value)
        return True


class Racy(Base):
    async def save(self, key: str, value: Any, version: int) -> Any:
        if (await self.inner.load(key))[1] != version:
            return False
        await anyio.lowlevel.checkpoint()
        return await super().save(key, value, (await self.inner.load(key))[1])


class Shares(Base):
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.versions = itertools.count(1)

    async def load(self, key: str) -> Any:
        return self.values.get(key, (None, 0))

    async def save(self, key: str, value: Any, version: int) -> Any:
        if self.values.get(key, (None, 0))[1] != version:
            return False
        self.values[key] = (value, next(self.versions))
        return True


class MixesKeys(Base):
    async def load(self, key: str) -> Any:
        return await super().load(key.strip())

    async def save(self, key: str, value: Any, version: int) -> Any:
        return await super().save(key.strip(), value, version)


class Raises(Base):
    async def load(self, key: str) -> Any:
        return await super().load(key.encode().decode())


class SaysNothing(Base):
    async def save(self, key: str, value: Any, version: int) -> Any:
        await super().save(key, value, version)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (object, r"no load\(key\) and save"),
        (MissingIsEmpty, "never saved has no value"),
        (AnyVersion, "version 7 of what is not there"),
        (VersionStays, "not a new version"),
        (Racy, "one can save"),
        (Shares, "Values are copies"),
        (MixesKeys, "different keys are apart"),
        (Raises, "A key is any text.* It raised UnicodeEncodeError"),
        (SaysNothing, "was not refused|was not done"),
    ],
)
async def test_a_broken_one_is_found(broken: Any, rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        await check_shared_state(broken)
