"""The plugins of the first party by their names, in one file; nothing is connected for it."""

from __future__ import annotations

from typing import Any

import pytest

for module in ("advisorchain_openai", "advisorchain_redis", "advisorchain_postgres", "advisorchain_vector"):
    pytest.importorskip(module)

FILE = """
plugins = ["advisorchain-openai", "advisorchain-redis", "advisorchain-vector", "memory_stores/postgres"]

[model]
use = "openai:gpt-5-mini"
api_key = "${OPENAI_API_KEY}"
options = {temperature = 0.1, max_tokens = 100}
timeout = 30

[memory]
use = "redis"
url = "${REDIS_URL}"
timeout = 3

[[advisors]]
use = "tool_search"
index = {use = "hybrid", indexes = ["bm25", "vector"]}
store = {use = "postgres", dsn = "${POSTGRES_DSN}"}

[[advisors]]
use = "model_fallback"
models = ["openai:gpt-4o", {use = "openai", model = "other", base_url = "http://localhost:1/v1"}]

[[advisors]]
use = "rate_limit"
calls = 3
state = {use = "advisorchain_redis:RedisState", url = "${REDIS_URL}"}
"""


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    monkeypatch.setenv("REDIS_URL", "redis://:secret-of-redis@localhost:1/0")
    monkeypatch.setenv("POSTGRES_DSN", "postgresql://me:secret-of-postgres@localhost:1/x")


async def test_first_party_plugins_in_one_file(load: Any) -> None:
    async with load(FILE) as client:
        advisors = {entry.name: entry.advisor for entry in client.chain.entries}
        assert client.model.name == "gpt-5-mini"
        assert type(advisors["memory"].store).__name__ == "RedisStore"
        assert type(advisors["tool_search"].store).__name__ == "PostgresStore"
        assert [model.name for model in advisors["model_fallback"].models] == ["gpt-4o", "other"]


def test_their_options_are_checked_and_their_secrets_kept(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTGRES_DSN", "secret-of-postgres")
    told = refused(FILE.replace("max_tokens", "max_tokns").replace("timeout = 3\n", "timeout = '3'\n"))
    assert "memory.timeout: must be a number." in told and "secret-of" not in told
    told = refused(FILE.replace("max_tokens", "max_tokns"))
    assert "cannot make 'postgres': PostgresStore: dsn= is no URL" in told
    assert "cannot make 'openai:gpt-5-mini': Invalid options: max_tokns: unknown option; did you mean" in told
    assert "secret-of" not in told and "sk-of" not in told


def test_one_that_is_not_on_the_list(refused: Any) -> None:
    told = refused(FILE.replace('"advisorchain-redis", ', ""))
    assert told.startswith("advisorchain.toml:11: memory.use: ") and "it is not allowed by plugins of the file" in told
