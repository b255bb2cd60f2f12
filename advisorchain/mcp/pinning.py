"""Pinning: a tool whose definition changes after it was first seen is noticed, and blocked unless somebody agrees."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..errors import ConfigurationError
from .listed_tool import ListedTool
from .pin import InMemoryPins, Pin, PinStore
from .pin_difference import difference

logger = logging.getLogger("advisorchain.mcp")

Approve: TypeAlias = Callable[[str, Pin | None, ListedTool], bool | Awaitable[bool]]
"""``approve(server, old, new)``: ``old`` is None for a new tool. Only True lets the tool in."""


@dataclass(frozen=True, slots=True)
class PinChange:
    """A tool that is not what it was.

    Attributes:
        name: its original name.
        old: the pin.
        new: what the server lists now.
        offered: whether it is offered all the same.
    """

    name: str
    old: Pin
    new: ListedTool
    offered: bool

    @property
    def lines(self) -> list[str]:
        """What has changed, in readable lines."""
        return difference(self.old, self.new)


@dataclass(frozen=True, slots=True)
class PinReport:
    """What a check has found.

    Attributes:
        server: the server's name.
        permitted: the tools that may be offered, in the order in which they were listed.
        changed: tools whose definition differs from the pin, offered or not, by name.
        new: names of tools that were pinned now.
        blocked: names of tools that are left out because they are new, or because they cannot be pinned.
        removed: names of tools that have a pin and are not listed; their pins stay.
        meta_changed: names of tools of which only ``_meta`` differs; they are offered.
        first_use: whether the server had no pins before.
    """

    server: str
    permitted: tuple[ListedTool, ...] = ()
    changed: Mapping[str, PinChange] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    meta_changed: tuple[str, ...] = ()
    first_use: bool = False


class Pinning:
    """Compares what servers list with what was accepted before; trusts a server at first use.

    The tools of a server without pins are pinned as they are. From then on a definition that differs is a change, also
    when the tool was gone in between.

    Args:
        store: where pins are kept; by default in memory, so that only changes within this process are noticed.
        on_change: what happens to a changed tool. ``"block"``: it is left out. ``"warn"``: it is offered, and the log
            says so; the pin stays as it was. A function ``approve(server, old, new)``, sync or async: True accepts the
            definition and pins it, anything else and an exception leave the tool out. A refused definition is not asked
            about again in this process.
        on_new: what happens to a tool that a known server did not list before: ``"allow"`` pins and offers it,
            ``"block"`` leaves it out, a function is asked with ``old=None``.

    Raises:
        ConfigurationError: a policy is none of these.
    """

    def __init__(
        self,
        store: PinStore | None = None,
        *,
        on_change: Literal["block", "warn"] | Approve = "block",
        on_new: Literal["allow", "block"] | Approve = "allow",
    ) -> None:
        if on_change not in ("block", "warn") and not callable(on_change):
            raise ConfigurationError(
                f"on_change must be 'block', 'warn' or a function (server, old, new) -> bool, not {on_change!r}."
            )
        if on_new not in ("allow", "block") and not callable(on_new):
            raise ConfigurationError(
                f"on_new must be 'allow', 'block' or a function (server, old, new) -> bool, not {on_new!r}."
            )
        if store is not None and not isinstance(store, PinStore):
            raise ConfigurationError(f"store must have async load, save and forget, as PinFile has; not {store!r}.")
        self.store: PinStore = InMemoryPins() if store is None else store
        self.on_change = on_change
        self.on_new = on_new
        self._told: dict[tuple[str, str], str] = {}  # the last definition that was refused or warned about

    async def check(self, server: str, tools: Sequence[ListedTool]) -> PinReport:
        """Compare the tools that the server lists now with its pins; pins what is new and accepted.

        Raises:
            ConfigurationError: the store cannot be read or written; says what to do.
        """
        pins = await self.store.load(server)
        first_use = not pins
        current, blocked = await _with_pins(server, tools)
        new: dict[str, Pin] = {}
        for name, pin, tool in current:
            if name in pins or name in new:
                continue
            if first_use or await self._admits_new(server, tool, pin):
                new[name] = pin
            else:
                blocked.append(name)
        if new:
            pins = await self.store.save(server, new)
        permitted: list[ListedTool] = []
        changed: dict[str, PinChange] = {}
        meta_changed: list[str] = []
        for name, pin, tool in current:
            old = pins.get(name)
            if old is None:
                continue
            if old.sha256 == pin.sha256:
                permitted.append(tool)
                if old.meta_sha256 != pin.meta_sha256:
                    meta_changed.append(name)
                continue
            offered, accepted = await self._admits_change(server, old, tool, pin)
            if accepted:
                pins = await self.store.save(server, {name: pin}, replace=True)
            if offered:
                permitted.append(tool)
            changed[name] = PinChange(name, old, tool, offered)
        listed = {tool.name for tool in tools}
        return PinReport(
            server,
            permitted=tuple(permitted),
            changed=changed,
            new=tuple(name for name, pin in new.items() if pins.get(name) == pin),
            blocked=tuple(dict.fromkeys(blocked)),
            removed=tuple(sorted(pins.keys() - listed)),
            meta_changed=tuple(meta_changed),
            first_use=first_use and bool(new),
        )

    async def accept(self, server: str, tools: Sequence[ListedTool]) -> None:
        """Pin the tools as they are now, whatever was pinned before; pins of other tools stay.

        Raises:
            ConfigurationError: the store cannot be read or written.
        """
        current, _ = await _with_pins(server, tools)
        await self.store.save(server, {name: pin for name, pin, _ in reversed(current)}, replace=True)
        for name, _, _ in current:
            self._told.pop((server, name), None)

    async def _admits_new(self, server: str, tool: ListedTool, pin: Pin) -> bool:
        if self.on_new == "allow":
            return True
        if self._is_told(server, pin):
            return False
        admitted = callable(self.on_new) and await _agreed(self.on_new, server, None, tool)
        if not admitted:
            logger.warning("The MCP server %r lists a new tool %.80r; it is left out.", server, tool.name)
            self._told[server, tool.name] = pin.sha256
        return admitted

    async def _admits_change(self, server: str, old: Pin, tool: ListedTool, pin: Pin) -> tuple[bool, bool]:
        """Whether a changed tool is offered, and whether it becomes the pin."""
        told = self._is_told(server, pin)
        if callable(self.on_change) and not told and await _agreed(self.on_change, server, old, tool):
            logger.info("The MCP server %r changed its tool %.80r, which was approved.", server, tool.name)
            return True, True
        offered = self.on_change == "warn"
        if not told:
            self._told[server, tool.name] = pin.sha256
            what = "it is offered all the same" if offered else "it is left out"
            lines = "; ".join(difference(old, tool))[:1000]
            logger.warning("The MCP server %r changed its tool %.80r, %s: %s", server, tool.name, what, lines)
        return offered, False

    def _is_told(self, server: str, pin: Pin) -> bool:
        return self._told.get((server, pin.definition["name"])) == pin.sha256


MANY = 200
"""From how many tools on a thread does the work, so that the event loop goes on."""


async def _with_pins(server: str, tools: Sequence[ListedTool]) -> tuple[list[tuple[str, Pin, ListedTool]], list[str]]:
    if len(tools) < MANY:
        return _current(server, tools)
    import anyio.to_thread

    return await anyio.to_thread.run_sync(_current, server, tools)


def _current(server: str, tools: Sequence[ListedTool]) -> tuple[list[tuple[str, Pin, ListedTool]], list[str]]:
    """The tools with the pins that they would have, and the names of those that cannot be pinned."""
    current: list[tuple[str, Pin, ListedTool]] = []
    blocked: list[str] = []
    for tool in tools:
        try:
            current.append((tool.name, Pin.of(tool), tool))
        except ValueError as error:
            logger.warning("The tool %.80r of the MCP server %r is left out: %s.", tool.name, server, error)
            blocked.append(tool.name)
    return current, blocked


async def _agreed(approve: Approve, server: str, old: Pin | None, new: ListedTool) -> bool:
    try:
        answer = approve(server, old, new)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception:
        logger.exception("Asking about the tool %.80r of the MCP server %r failed; it is left out.", new.name, server)
        return False
    return answer is True
