"""Indexes of tools: given a query, they find the few tools of many that fit it.

`Bm25Index` needs nothing else and is a good default; the others are imported when they are asked for. The functions are
for those who write an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fields import fields_of
from .index import ToolHit, ToolIndex, ToolPredicate, best_hits, check_search
from .words import split_words

if TYPE_CHECKING:
    from .bm25 import Bm25Index
    from .hybrid import HybridIndex
    from .regex import RegexIndex

__all__ = [
    "Bm25Index",
    "HybridIndex",
    "RegexIndex",
    "ToolHit",
    "ToolIndex",
    "ToolPredicate",
    "best_hits",
    "check_search",
    "fields_of",
    "split_words",
]

_MODULES = {"Bm25Index": "bm25", "HybridIndex": "hybrid", "RegexIndex": "regex"}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
