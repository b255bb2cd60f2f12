"""`Catalogue`: what a search knows of a request's tools; `CatalogueIndexes`: an index for each catalogue."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from ..errors import ConfigurationError
from ..tool_set import ToolSet
from ..tools.definition import Tool
from .index import ToolIndex

if TYPE_CHECKING:
    import anyio

"""The entry points of plugins that bring an index."""

_DIGESTS: WeakKeyDictionary[Tool, bytes] = WeakKeyDictionary()


class Catalogue:
    """What is known of a set of tools. It does not hold them, so that it can be kept as long as they live.

    Attributes:
        categories: the tools' tags, and the sources of those that are not local; sorted.
        shown: parts of the tools that were shown, by what made them.
    """

    __slots__ = ("categories", "shown", "_fingerprint")

    def __init__(self, tools: ToolSet) -> None:
        found: set[str] = set()
        for tool in tools:
            if tool.tags:
                found |= tool.tags
            if tool.source != "local":
                found.add(tool.source)
        self.categories = tuple(sorted(found))
        self.shown: OrderedDict[tuple[str, ...], ToolSet] = OrderedDict()
        self._fingerprint: bytes | None = None

    def fingerprint(self, tools: ToolSet) -> bytes:
        """The same for tools that read the same, in whatever order; computed once."""
        if self._fingerprint is None:
            self._fingerprint = hashlib.sha256(b"".join(sorted(map(digest_of, tools)))).digest()
        return self._fingerprint

    def has(self, category: str) -> bool:
        """Whether there is such a category, in whatever case."""
        return category.casefold() in map(str.casefold, self.categories)


class Catalogues:
    """The catalogue of each set of tools, as long as that lives."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[ToolSet, Catalogue] = WeakKeyDictionary()

    def of(self, tools: ToolSet) -> Catalogue:
        """The catalogue of these tools."""
        found = self._known.get(tools)
        if found is None:
            found = self._known[tools] = Catalogue(tools)
        return found


def found_in(tools: ToolSet, category: str | None) -> Callable[[Tool], bool]:
    """Says of an indexed tool whether one of its name is among the tools, and of the category if there is one."""
    get = tools.get
    if category is None:
        return lambda tool: get(tool.name) is not None
    wanted = category.casefold()

    def belongs(tool: Tool) -> bool:
        own = get(tool.name)
        return own is not None and (own.source.casefold() == wanted or wanted in map(str.casefold, own.tags))

    return belongs


def digest_of(tool: Tool) -> bytes:
    """The same for tools that read the same: name, title, description, schema, tags and source; computed once."""
    found = _DIGESTS.get(tool)
    if found is None:
        texts = (tool.name, tool.title, tool.description, tool.source, sorted(tool.tags), dict(tool.input_schema))
        try:
            read = to_json(texts, fallback=str, inf_nan_mode="strings")
        except ValueError:  # half of a surrogate pair has no form in JSON: one broken text must not stop every search
            read = repr(texts).encode("utf-8", "backslashreplace")
        found = _DIGESTS[tool] = hashlib.sha256(read).digest()
    return found


class CatalogueIndexes:
    """Builds the index of a catalogue once, for all that have the same tools, and keeps the latest.

    Args:
        make: gives an empty index; called once for each catalogue.
        shared: one index for all catalogues instead: it holds the tools of those that are kept, and a search must
            filter by its own catalogue.
        keep: how many catalogues are kept.
    """

    def __init__(
        self, make: Callable[[], ToolIndex] | None = None, *, shared: ToolIndex | None = None, keep: int = 16
    ) -> None:
        self._make = make
        self._shared = shared
        self._keep = keep
        self._built: OrderedDict[bytes, tuple[list[str], ToolIndex]] = OrderedDict()  # with the tools' names
        self._in_shared: dict[str, bytes] = {}
        self._overwritten: set[bytes] = set()  # those of which a shared index holds another's tool of the same name
        self._building: dict[Hashable, anyio.Event] = {}
        self._lock = threading.Lock()  # for other event loops in other threads; never held across an await

    def __len__(self) -> int:
        return len(self._built)

    async def index_of(self, tools: ToolSet, key: bytes) -> ToolIndex:
        """The index of these tools, whose fingerprint is ``key``.

        Whoever asks while it is built waits for that one build.

        Raises:
            Exception: what the index raised; the next one who asks builds it anew.
        """
        from anyio.lowlevel import current_token

        while True:
            with self._lock:
                built = self._built.get(key)
                if built is not None and key not in self._overwritten:
                    self._built.move_to_end(key)
                    return built[1]
            # Events belong to their loop. A shared index is built for one catalogue at a time.
            place = (current_token(), None if self._shared is not None else key)
            event = self._building.get(place)
            if event is None:
                return await self._build(tools, key, place)
            await event.wait()

    async def _build(self, tools: ToolSet, key: bytes, place: Hashable) -> ToolIndex:
        import anyio

        event = self._building[place] = anyio.Event()
        try:
            if self._shared is not None:
                index = self._shared
                new = {tool.name: digest_of(tool) for tool in tools}
                changed = [tool for tool in tools if self._in_shared.get(tool.name) != new[tool.name]]
                with self._lock:
                    self._overwrite({tool.name for tool in changed})
                await index.add(changed)
                with self._lock:
                    self._overwritten.discard(key)
                    self._in_shared.update((tool.name, new[tool.name]) for tool in changed)
            else:
                assert self._make is not None
                index = checked_index(self._make())
                await index.add(tools)
            with self._lock:
                self._built[key] = (tools.names, index)
                gone = self._forget()
            if gone:
                await index.remove(gone)
        finally:  # also when it was cancelled: whoever waits then builds it
            del self._building[place]
            event.set()
        return index

    def _overwrite(self, names: set[str]) -> None:
        """A shared index is about to hold other tools of these names: who has the old ones adds them again."""
        replaced = {name for name in names if self._in_shared.pop(name, None) is not None}
        if replaced:
            self._overwritten.update(key for key, (held, _) in self._built.items() if not replaced.isdisjoint(held))

    def _forget(self) -> list[str]:
        """Drop what is too much; the names that a shared index need not hold any longer."""
        gone: list[str] = []
        while len(self._built) > self._keep:
            self._overwritten.discard(self._built.popitem(last=False)[0])
            if self._shared is not None:
                kept = {name for names, _ in self._built.values() for name in names}
                gone += [name for name in self._in_shared if name not in kept]
                for name in gone:
                    self._in_shared.pop(name, None)
        return gone


def indexes_for(index: Any, keep: int) -> CatalogueIndexes:
    """What ``index=`` means: a name, an index, or a function that gives an empty index.

    Raises:
        ConfigurationError: it is none of these, there is no index of that name, or its plugin is missing.
    """
    if isinstance(index, str):
        return CatalogueIndexes(_named(index), keep=keep)
    if not isinstance(index, type) and isinstance(index, ToolIndex):
        return CatalogueIndexes(shared=index, keep=keep)
    if callable(index):
        make: Any = index
        checked_index(make())
        return CatalogueIndexes(make, keep=keep)
    raise ConfigurationError(
        'index= takes "bm25", "regex", "hybrid", "vector", the name of a plugin\'s index, an index, or a function that '
        f"gives an empty one, not {index!r}."
    )


def checked_index(index: Any) -> ToolIndex:
    """The index, if it is one.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(index, ToolIndex):
        raise ConfigurationError(f"index= must give an index with async add, remove and search, not {index!r}.")
    return index


def _named(name: str) -> Callable[[], ToolIndex]:
    from .. import plugins  # here, for those who give an index

    if name == "hybrid":  # its parts are looked up once, not for every catalogue
        from .hybrid import HybridIndex

        bm25, vector = (plugins.find("tool_indexes", part) for part in ("bm25", "vector"))
        return lambda: HybridIndex([bm25(), vector()])
    return plugins.find("tool_indexes", name)
