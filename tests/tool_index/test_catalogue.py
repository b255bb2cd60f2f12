"""Catalogues: when two sets of tools are the same, and what ``index=`` means."""

from __future__ import annotations

import gc
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from installed_plugins import install

from advisorchain import ConfigurationError, Tool, ToolSet
from advisorchain.plugins import metadata
from advisorchain.tool_index import Bm25Index, HybridIndex, RegexIndex
from advisorchain.tool_index.catalogue import Catalogue, Catalogues, digest_of, found_in, indexes_for


async def answers(arguments: dict[str, Any]) -> str:
    return ""


def made(name: str = "a", **settings: Any) -> Tool:
    return Tool.from_schema(name, answers, **{"description": "A.", **settings})


def fingerprint(*tools: Tool) -> bytes:
    chosen = ToolSet(tools)
    return Catalogue(chosen).fingerprint(chosen)


def test_tools_that_read_the_same_are_the_same() -> None:
    assert digest_of(made()) == digest_of(made())
    assert fingerprint(made("a"), made("b")) == fingerprint(made("b"), made("a"))
    for changes in (
        {"name": "b"}, {"description": "B."}, {"title": "T"}, {"tags": ["t"]}, {"source": "s"},
        {"input_schema": {"type": "object", "properties": {"x": {"type": "string"}}}},
    ):  # fmt: skip
        assert digest_of(made(**changes)) != digest_of(made()), changes
        assert fingerprint(made(**changes)) != fingerprint(made())
    assert digest_of(made(timeout=1, return_direct=True)) == digest_of(made())


def test_a_schema_with_anything_in_it() -> None:
    odd = {"type": "object", "properties": {"x": {"default": float("nan"), "examples": [object]}}}
    assert digest_of(made(input_schema=odd)) == digest_of(made(input_schema=odd))


def test_a_text_with_broken_characters() -> None:
    assert digest_of(made(description="\ud800")) == digest_of(made(description="\ud800"))
    assert digest_of(made(description="\ud800")) != digest_of(made(description="\ud801"))


def test_categories() -> None:
    tools = ToolSet([made("a", tags=["B", "a"]), made("b", source="Server"), made("c")])
    catalogue = Catalogue(tools)
    assert catalogue.categories == ("B", "Server", "a")
    assert catalogue.has("b") and catalogue.has("server") and not catalogue.has("local")
    belongs, anything = found_in(tools, "SERVER"), found_in(tools, None)
    assert [name for name in "abcd" if belongs(made(name))] == ["b"]
    assert [name for name in "abcd" if anything(made(name))] == ["a", "b", "c"]


def test_catalogues_live_as_long_as_their_tools() -> None:
    catalogues = Catalogues()
    tools = ToolSet([made()])
    assert catalogues.of(tools) is catalogues.of(tools)
    assert len(catalogues._known) == 1
    catalogues.of(tools).shown[()] = ToolSet(tools)
    del tools
    gc.collect()
    assert len(catalogues._known) == 0


# What index= means ----------------------------------------------------------------------------------------------------


class Plugin(Bm25Index):
    """Stands where a plugin's index would."""


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to install plugins in; no others are installed."""
    monkeypatch.setattr(metadata, "distributions", lambda: distributions(path=[str(tmp_path)]))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


MODULE = "from advisorchain.tool_index import Bm25Index\nclass Found(Bm25Index): pass\n"


async def index_of(index: Any) -> Any:
    tools = ToolSet([made()])
    return await indexes_for(index, 4).index_of(tools, Catalogue(tools).fingerprint(tools))


async def test_names(others: Path) -> None:
    points = {"vector": "catalogue_plugin:Found", "mine": "catalogue_plugin:Found"}
    install(others, "mine", {"tool_indexes": points}, modules={"catalogue_plugin": MODULE})
    assert type(await index_of("bm25")) is Bm25Index
    assert type(await index_of("regex")) is RegexIndex
    assert type(await index_of("hybrid")) is HybridIndex
    assert type(await index_of("vector")).__name__ == "Found"
    assert type(await index_of("mine")).__name__ == "Found"
    assert type(await index_of(Plugin)) is Plugin
    assert type(await index_of(lambda: HybridIndex([Bm25Index(), RegexIndex()]))) is HybridIndex
    own = Plugin()
    assert await index_of(own) is own


@pytest.mark.parametrize("name", ["vector", "hybrid"])
def test_a_plugin_that_is_missing(others: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="The tool index 'vector' needs the plugin advisorchain-vector: pip"):
        indexes_for(name, 4)


def test_two_of_one_name_and_one_that_is_broken(others: Path) -> None:
    install(others, "a", {"tool_indexes": {"mine": "a:A", "broken": "no_such_module_at_all:A"}})
    install(others, "b", {"tool_indexes": {"mine": "b:B"}})
    with pytest.raises(ConfigurationError, match=r"mine of a 1.0: b has the same name.*mine of b 1.0: a has the same"):
        indexes_for("mine", 4)
    with pytest.raises(ConfigurationError, match=r"broken of a 1.0: cannot import no_such_module_at_all:A: ModuleNotF"):
        indexes_for("broken", 4)


async def test_a_plugin_that_gives_no_index(others: Path) -> None:
    install(others, "mine", {"tool_indexes": {"mine": "builtins:dict"}})
    with pytest.raises(ConfigurationError, match="index= must give an index with async add, remove and search"):
        await index_of("mine")
