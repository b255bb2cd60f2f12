"""Models: the protocol, and the embedded offline `KeywordModel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .calls_allowed import check_calls_allowed
from .model import ChatModel

if TYPE_CHECKING:
    from .keyword import KeywordModel

__all__ = ["ChatModel", "KeywordModel", "check_calls_allowed"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "KeywordModel":  # loaded when asked for: most applications never need it
        from .keyword import KeywordModel

        return KeywordModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
