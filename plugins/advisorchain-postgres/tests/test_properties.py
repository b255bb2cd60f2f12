"""Any sequence of appends, loads and deletions gives what a plain list would give, as for the stores of the package."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings

from advisorchain import UserMessage
from advisorchain_postgres import PostgresStore

PATH = Path(__file__).resolve().parents[3] / "tests" / "memory" / "test_properties.py"
spec = importlib.util.spec_from_file_location("memory_properties", PATH)
assert spec is not None and spec.loader is not None
properties = importlib.util.module_from_spec(spec)
spec.loader.exec_module(properties)

numbers = itertools.count()


@given(properties.STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_steps(server: Any, steps: list[tuple[Any, ...]]) -> None:
    anyio.run(properties.follow, lambda: PostgresStore(server.dsn, schema=f"steps_{next(numbers)}"), steps)


@given(properties.TEXTS, properties.TEXTS, properties.VALUES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_loses_nothing(server: Any, name: str, text: str, value: Any) -> None:
    sent = UserMessage(content=text, metadata={text: value})
    store = PostgresStore(server.dsn, schema="texts")

    async def there_and_back() -> None:
        await store.delete(name)
        await store.append(name, text, [sent], branch=text)
        found = await store.load(name, branch=text)
        assert (found, found.turns[0].id) == ((sent,), text)
        assert await store.conversations() == (name,)
        await store.delete(name)

    anyio.run(there_and_back)
