"""Where the provider's prompt cache is told to keep what it has read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast, get_args

from advisorchain import ConfigurationError

CachePlace = Literal["tools", "system", "messages"]
"""``"tools"``: up to the last tool; ``"system"``: up to the system text; ``"messages"``: up to the last message."""

CacheTtl = Literal["5m", "1h"]

_MOST_MARKS = 4
"""The provider refuses a request with more."""
_LOOKS_BACK = 20
"""So many blocks before a mark, at most, it looks for what it has kept."""

_PLACES: tuple[CachePlace, ...] = get_args(CachePlace)


def cache_places(cache: bool | CachePlace | Iterable[CachePlace]) -> frozenset[CachePlace]:
    """The places that ``cache=`` of the model names; True means all of them.

    Raises:
        ConfigurationError: there is no such place.
    """
    if isinstance(cache, bool):
        return frozenset(_PLACES if cache else ())
    places = cast("set[CachePlace]", {cache} if isinstance(cache, str) else set(cache))
    if unknown := sorted(places - set(_PLACES), key=str):
        raise ConfigurationError(
            f"cache= takes True, 'tools', 'system' or 'messages', or several of these names, not {unknown[0]!r}."
        )
    return frozenset(places)


def mark_cached(body: dict[str, Any], places: Iterable[CachePlace], ttl: CacheTtl | None) -> None:
    """Put ``cache_control`` at the end of each place that the request's body has; nothing that it holds is changed."""
    control: dict[str, Any] = {"type": "ephemeral"}
    if ttl is not None:
        control["ttl"] = ttl
    if "tools" in places and body.get("tools"):
        body["tools"] = _last_marked(body["tools"], control)
    if "system" in places and body.get("system"):
        body["system"] = _last_marked([{"type": "text", "text": body["system"]}], control)
    if "messages" in places and body["messages"]:
        messages: list[dict[str, Any]] = list(body["messages"])
        messages[-1] = _end_marked(messages[-1], control)
        body["messages"] = messages
        # Where the request before this one ended.
        is_far = len(messages) > 2 and sum([len(message["content"]) for message in messages[-2:]]) >= _LOOKS_BACK
        if is_far and _marks(body) < _MOST_MARKS:
            messages[-3] = _end_marked(messages[-3], control)


def _marks(body: dict[str, Any]) -> int:
    system = body.get("system")
    places = [body.get("tools", ()), system if isinstance(system, list) else ()]
    places += [message["content"] for message in body["messages"]]
    return sum(["cache_control" in block for blocks in places for block in blocks])


def _end_marked(message: dict[str, Any], control: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": _last_marked(message["content"], control)}


def _last_marked(blocks: list[dict[str, Any]], control: dict[str, Any]) -> list[dict[str, Any]]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": control}]
