"""The built-in advisors; each uses only public names of the package's modules and could be a plugin.

The two that every client has are imported at once, the others when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .return_direct import ReturnDirectAdvisor
from .tool_calling import LoopState, ToolCallingAdvisor

if TYPE_CHECKING:
    from .audit import AuditAdvisor
    from .augmentation import AugmentationAdvisor
    from .budget import BudgetAdvisor, BudgetState, InMemoryBudget, ModelPrice, Spent
    from .circuit_breaker import CircuitBreakerAdvisor
    from .fallback import FALLBACK_LANGUAGE, FallbackTexts, ToolFallbackAdvisor
    from .memory import MemoryAdvisor
    from .model_fallback import ModelFallbackAdvisor
    from .rate_limit import RateLimitAdvisor
    from .retry import RetryAdvisor, RetryPolicy
    from .tool_cache import ToolCacheAdvisor
    from .tool_filter import ToolFilterAdvisor
    from .tool_search import ToolSearchAdvisor

__all__ = [
    "FALLBACK_LANGUAGE",
    "AuditAdvisor",
    "AugmentationAdvisor",
    "BudgetAdvisor",
    "BudgetState",
    "CircuitBreakerAdvisor",
    "FallbackTexts",
    "InMemoryBudget",
    "LoopState",
    "MemoryAdvisor",
    "ModelFallbackAdvisor",
    "ModelPrice",
    "RateLimitAdvisor",
    "RetryAdvisor",
    "RetryPolicy",
    "ReturnDirectAdvisor",
    "Spent",
    "ToolCacheAdvisor",
    "ToolCallingAdvisor",
    "ToolFallbackAdvisor",
    "ToolFilterAdvisor",
    "ToolSearchAdvisor",
]

_MODULES = {
    "FALLBACK_LANGUAGE": "fallback",
    "AuditAdvisor": "audit",
    "AugmentationAdvisor": "augmentation",
    "BudgetAdvisor": "budget",
    "BudgetState": "budget",
    "CircuitBreakerAdvisor": "circuit_breaker",
    "FallbackTexts": "fallback",
    "InMemoryBudget": "budget",
    "MemoryAdvisor": "memory",
    "ModelFallbackAdvisor": "model_fallback",
    "ModelPrice": "budget",
    "RateLimitAdvisor": "rate_limit",
    "RetryAdvisor": "retry",
    "RetryPolicy": "retry",
    "Spent": "budget",
    "ToolCacheAdvisor": "tool_cache",
    "ToolFallbackAdvisor": "fallback",
    "ToolFilterAdvisor": "tool_filter",
    "ToolSearchAdvisor": "tool_search",
}


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
