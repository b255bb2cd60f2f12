"""The plugins that advisorchain itself has, as a table: they are found without any metadata, for example in a zipapp.

The same are entry points in pyproject.toml, where other tools look for them; a test compares the two.
"""

from __future__ import annotations

DISTRIBUTION = "advisorchain"

BUILT_IN: dict[str, dict[str, str]] = {
    "advisors": {
        "audit": "advisorchain.advisors:AuditAdvisor",
        "augmentation": "advisorchain.advisors:AugmentationAdvisor",
        "budget": "advisorchain.advisors:BudgetAdvisor",
        "circuit_breaker": "advisorchain.advisors:CircuitBreakerAdvisor",
        "memory": "advisorchain.advisors:MemoryAdvisor",
        "model_fallback": "advisorchain.advisors:ModelFallbackAdvisor",
        "rate_limit": "advisorchain.advisors:RateLimitAdvisor",
        "retry": "advisorchain.advisors:RetryAdvisor",
        "return_direct": "advisorchain.advisors:ReturnDirectAdvisor",
        "tool_cache": "advisorchain.advisors:ToolCacheAdvisor",
        "tool_calling": "advisorchain.advisors:ToolCallingAdvisor",
        "tool_fallback": "advisorchain.advisors:ToolFallbackAdvisor",
        "tool_filter": "advisorchain.advisors:ToolFilterAdvisor",
        "tool_search": "advisorchain.advisors:ToolSearchAdvisor",
    },
    "models": {"keyword": "advisorchain.models:KeywordModel"},
    "memory_stores": {
        "in_memory": "advisorchain.memory:InMemoryStore",
        "sqlite": "advisorchain.memory:SqliteStore",
    },
    "tool_indexes": {
        "bm25": "advisorchain.tool_index:Bm25Index",
        "hybrid": "advisorchain.tool_index.hybrid:hybrid_index",
        "regex": "advisorchain.tool_index:RegexIndex",
    },
    "tools": {},
    "audit_sinks": {
        "json_lines": "advisorchain.audit:JsonLinesSink",
        "logging": "advisorchain.audit:LoggingSink",
        "sqlite": "advisorchain.audit:SqliteSink",
    },
}
"""Group -> name -> ``module:object``."""

PUBLISHED: dict[str, dict[str, str]] = {
    "models": {
        "anthropic": "advisorchain-anthropic",
        "local": "advisorchain-local",
        "openai": "advisorchain-openai",
        "openai_responses": "advisorchain-openai",
    },
    "memory_stores": {"postgres": "advisorchain-postgres", "redis": "advisorchain-redis"},
    "tool_indexes": {"vector": "advisorchain-vector"},
}
"""Group -> name -> the distribution of ours that has it, to name it where it is missing."""
