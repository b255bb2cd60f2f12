"""`VectorIndex`: the contract, the cache, and what an embedder may do wrong."""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from advisorchain import ConfigurationError, Tool
from advisorchain.testing import check_tool_index
from advisorchain.tool_index import Bm25Index, HybridIndex
from advisorchain_vector import MiniLmEmbedder, VectorIndex


class Trigrams:
    """A small embedder: counts of runs of three characters, hashed."""

    name = "trigrams"

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await anyio.lowlevel.checkpoint()
        self.texts += texts
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        numbers = [0.0] * 512
        padded = f" {text.lower()} "
        for at in range(len(padded) - 1):
            for length in (2, 3):
                numbers[zlib.crc32(padded[at : at + length].encode("utf-8", "replace")) % 512] += 1.0
        return numbers


def make_tool(name: str, description: str) -> Tool:
    async def handle(arguments: dict[str, Any]) -> None:
        return None

    return Tool.from_schema(name, handle, description=description)


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


TOOLS = [
    make_tool("get_weather", "Give the weather forecast of a city"),
    make_tool("send_email", "Send an electronic letter to a person"),
    make_tool("convert_currency", "Convert an amount of money between currencies"),
    make_tool("book_flight", "Book a flight between two airports"),
]


async def test_contract() -> None:
    await check_tool_index(lambda: VectorIndex(Trigrams(), cache_dir=False))


async def test_contract_in_a_hybrid(tmp_path: Path) -> None:
    await check_tool_index(lambda: HybridIndex([Bm25Index(), VectorIndex(Trigrams(), cache_dir=tmp_path)]))


async def test_the_offline_model_finds_by_meaning(tmp_path: Path) -> None:
    index = VectorIndex(cache_dir=tmp_path)
    await index.add(TOOLS)
    for query, name in [
        ("Will it rain tomorrow?", "get_weather"),
        ("How many euros are 100 dollars?", "convert_currency"),
        ("I want to travel by plane to Rome", "book_flight"),
        ("write a message to Bob", "send_email"),
    ]:
        assert (await index.search(query, 1))[0].name == name, query


async def test_the_offline_model_gives_the_same_vector_in_any_company() -> None:
    embedder = MiniLmEmbedder()
    texts = ["Will it rain?", "x" * 5_000, "", "天气 🙂"]
    together = await embedder.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert len(vector) == 384
        assert sum(number * number for number in vector) == pytest.approx(1)
        assert (await embedder.embed([text])) == [vector]


async def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    first, second = Trigrams(), Trigrams()
    await VectorIndex(first, tmp_path).add(TOOLS)
    assert len(first.texts) == len(TOOLS)
    index = VectorIndex(second, str(tmp_path))
    await index.add([*TOOLS, make_tool("new", "Do something new")])
    assert len(second.texts) == 1
    hits = await index.search("weather forecast")
    fresh = VectorIndex(Trigrams(), cache_dir=False)
    await fresh.add([*TOOLS, make_tool("new", "Do something new")])
    assert hits == await fresh.search("weather forecast")


async def test_two_tools_with_one_text_are_embedded_once() -> None:
    embedder = Trigrams()
    index = VectorIndex(embedder, cache_dir=False)
    await index.add([make_tool("getWeather", "Give it"), make_tool("get_weather", "Give it")])
    assert len(embedder.texts) == 1
    assert [hit.name for hit in await index.search("weather")] == ["getWeather", "get_weather"]


async def test_another_embedder_has_other_vectors(tmp_path: Path) -> None:
    await VectorIndex(Trigrams(), tmp_path).add(TOOLS)
    other = Trigrams()
    other.name = "trigrams-2"
    await VectorIndex(other, tmp_path).add(TOOLS)
    assert len(other.texts) == len(TOOLS)


async def test_an_embedder_without_a_name_is_not_cached(tmp_path: Path) -> None:
    embedder = Trigrams()
    index = VectorIndex(embedder.embed, tmp_path)
    await index.add(TOOLS)
    assert (await index.search("weather", 1))[0].name == "get_weather"
    assert files(tmp_path) == []


async def test_without_a_home_there_is_no_cache(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    with caplog.at_level(logging.WARNING, "advisorchain.vector"):
        index = VectorIndex(Trigrams())
    await index.add(TOOLS)
    assert await index.search("weather")
    assert [record.message[:20] for record in caplog.records] == ["There is no place fo"]


async def test_a_broken_cache_is_said_once_and_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await VectorIndex(Trigrams(), tmp_path).add(TOOLS)
    (path,) = files(tmp_path)
    path.write_bytes(b"this is no database" * 100)
    embedder = Trigrams()
    index = VectorIndex(embedder, tmp_path)
    with caplog.at_level(logging.WARNING, "advisorchain.vector"):
        await index.add(TOOLS)
        await index.add(TOOLS)
    assert (await index.search("weather", 1))[0].name == "get_weather"
    assert [record.message[:34] for record in caplog.records] == ["The cache of vectors cannot be rea"]


async def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    index = VectorIndex(Trigrams(), tmp_path / "file" / "under")
    await index.add(TOOLS)
    assert (await index.search("weather", 1))[0].name == "get_weather"


async def test_a_damaged_vector_is_made_anew(tmp_path: Path) -> None:
    await VectorIndex(Trigrams(), tmp_path).add(TOOLS)
    (path,) = files(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE vectors SET vector = x'00' WHERE rowid = 1")
    connection.commit()
    connection.close()
    embedder = Trigrams()
    await VectorIndex(embedder, tmp_path).add(TOOLS)
    assert len(embedder.texts) == 1


async def test_cached_vectors_of_another_length_are_made_anew(tmp_path: Path) -> None:
    class Short(Trigrams):
        def vector(self, text: str) -> list[float]:
            return super().vector(text)[:100]

    await VectorIndex(Short(), tmp_path).add(TOOLS)
    index = VectorIndex(Trigrams(), tmp_path)
    await index.add([*TOOLS, make_tool("new", "Do something new")])
    assert (await index.search("weather", 1))[0].name == "get_weather"


@pytest.mark.parametrize("embedder", ["minilm", 7, Trigrams])
def test_what_is_no_embedder_is_refused(embedder: Any) -> None:
    with pytest.raises(ConfigurationError, match="async embed"):
        VectorIndex(embedder)


@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        ([[1.0, 2.0]], "for 4 texts"),
        ([[1.0], [1.0, 2.0], [1.0], [1.0]], "one length"),
        ([[float("nan")]] * 4, "NaN"),
        ([["a"]] * 4, "one length"),
        (None, "numbers for 4 texts"),
        ([[]] * 4, "numbers for 4 texts"),
    ],
)
async def test_bad_vectors_are_refused(vectors: Any, text: str) -> None:
    async def embed(texts: Sequence[str]) -> Any:
        return vectors

    index = VectorIndex(embed, cache_dir=False)
    with pytest.raises(ConfigurationError, match=text):
        await index.add(TOOLS)
    assert await index.search("weather") == []


async def test_an_embedder_that_is_not_async_is_refused() -> None:
    def embed(texts: Sequence[str]) -> Any:
        return [[1.0]] * len(texts)

    with pytest.raises(ConfigurationError, match="must be async"):
        await VectorIndex(embed, cache_dir=False).add(TOOLS)


async def test_an_embedder_that_changes_its_length_is_refused() -> None:
    length = 2

    async def embed(texts: Sequence[str]) -> Any:
        return [[1.0] * length] * len(texts)

    index = VectorIndex(embed, cache_dir=False)
    await index.add(TOOLS)
    length = 3
    with pytest.raises(ConfigurationError, match="3 numbers; those in the index have 2"):
        await index.search("weather")
    with pytest.raises(ConfigurationError, match="3 numbers; those in the index have 2"):
        await index.add([make_tool("new", "Do something new")])
    await index.add(TOOLS)
    assert len(await index.search("weather")) == 4


async def test_zeros_are_like_nothing() -> None:
    async def embed(texts: Sequence[str]) -> Any:
        return [[0.0, 0.0]] * len(texts)

    index = VectorIndex(embed, cache_dir=False)
    await index.add(TOOLS)
    assert await index.search("weather") == []


def test_it_is_found_by_its_name() -> None:
    (entry,) = entry_points(group="advisorchain.tool_indexes", name="vector")
    assert entry.load() is VectorIndex
