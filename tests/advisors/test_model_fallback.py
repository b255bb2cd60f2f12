"""ModelFallbackAdvisor: who answers when a model fails, and who owns a stream."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    BudgetExceededError,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ModelError,
    Restarted,
    TextDelta,
    ToolCall,
    TurnAbortedError,
    chat_advisor,
    tool,
)
from advisorchain.advisors import (
    BudgetAdvisor,
    CircuitBreakerAdvisor,
    ModelFallbackAdvisor,
    ModelPrice,
    RetryAdvisor,
)
from advisorchain.model_call import requested_model
from advisorchain.testing import ScriptedModel

BUSY = ModelError("overloaded", transient=True)


@tool
async def look() -> str:
    """Look."""
    return "seen"


def models(*scripts: list[Any]) -> list[ScriptedModel]:
    return [
        ScriptedModel(script, name=name) for script, name in zip(scripts, ("first", "second", "third"), strict=False)
    ]


async def test_the_own_model_answers(run: Any) -> None:
    first, second = models(["hello"], [])
    response = await run(ChatClient(first, advisors=[ModelFallbackAdvisor([second])]), "Hi")
    assert (response.text, response.metadata["model"]) == ("hello", "first")
    assert second.requests == []


async def test_the_next_model_answers(run: Any) -> None:
    first, second, third = models([BUSY], [TimeoutError()], ["hello"])
    response = await run(ChatClient(first, advisors=[ModelFallbackAdvisor([second, third])]), "Hi")
    assert (response.text, response.metadata["model"]) == ("hello", "third")
    assert second.requests[0].messages == first.requests[0].messages


async def test_a_model_that_is_empty_is_a_model_all_the_same(run: Any) -> None:
    class Replies(ScriptedModel):
        def __len__(self) -> int:
            return 0

    asked: list[str | None] = []

    @chat_advisor(order=999)
    async def ask(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        asked.append(requested_model(request))
        return await call_next(request)

    first, second = ScriptedModel([BUSY], name="first"), Replies(["hello"], name="second")
    await run(ChatClient(first, advisors=[ModelFallbackAdvisor([second]), ask]), "Hi")
    assert asked == ["first", "second"], "budgets and limits go by this name"


async def test_when_all_fail_the_last_error_is_raised(run: Any) -> None:
    last = ModelError("second is down", transient=True)
    first, second = models([BUSY], [last])
    with pytest.raises(ModelError) as caught:
        await run(ChatClient(first, advisors=[ModelFallbackAdvisor([second])]), "Hi")
    assert caught.value is last


@pytest.mark.parametrize(
    "error", [ModelError("bad key", status=401), TypeError("bug"), TurnAbortedError("stop")], ids=repr
)
async def test_other_errors_are_not_for_another_model(run: Any, error: Exception) -> None:
    first, second = models([error], [])
    with pytest.raises(type(error)):
        await run(ChatClient(first, advisors=[ModelFallbackAdvisor([second])]), "Hi")


async def test_on_decides(run: Any) -> None:
    first, second = models([ModelError("content filter", status=400)], ["hello"])
    fallback = ModelFallbackAdvisor([second], on=lambda error: getattr(error, "status", None) == 400)
    assert (await run(ChatClient(first, advisors=[fallback]), "Hi")).text == "hello"


async def test_each_round_begins_with_the_own_model(run: Any) -> None:
    first, second = models([BUSY, "done"], [ToolCall("look")])
    response = await run(ChatClient(first, tools=[look], advisors=[ModelFallbackAdvisor([second])]), "Look")
    assert (response.text, response.metadata["model"]) == ("done", "first")


async def test_the_models_name_at_its_provider_is_not_for_another(run: Any) -> None:
    first, second = models([BUSY, "hello"], ["hi"])
    made = ChatClient(
        first, advisors=[ModelFallbackAdvisor([second])], options={"model": "large-1", "temperature": 0.5}
    )
    assert (await run(made, "Hi")).metadata["model"] == "second"
    assert (first.requests[0].options.model, second.requests[0].options.model) == ("large-1", None)
    assert second.requests[0].options.temperature == 0.5
    assert (await run(made, "Hi")).metadata["model"] == "large-1"


async def test_each_model_has_its_own_price(run: Any) -> None:
    first, second = models([BUSY], ["hello"])
    prices = {"large-1": ModelPrice(1, 1), "second": ModelPrice(1, 1)}
    advisors = [ModelFallbackAdvisor([second]), BudgetAdvisor(max_cost=1, prices=prices)]
    assert (await run(ChatClient(first, advisors=advisors, options={"model": "large-1"}), "Hi")).text == "hello"
    del prices["second"]
    first, second = models([BUSY], ["hello"])
    advisors = [ModelFallbackAdvisor([second]), BudgetAdvisor(max_cost=1, prices=prices)]
    with pytest.raises(BudgetExceededError, match="'second' has no price"):
        await run(ChatClient(first, advisors=advisors, options={"model": "large-1"}), "Hi")


async def breaks(request: ChatRequest) -> Any:
    await request.emit(TextDelta("half an"))
    return BUSY


async def test_the_model_that_has_emitted_owns_the_turn(run: Any) -> None:
    first, second = models([breaks], ["whole"])
    made = ChatClient(first, advisors=[ModelFallbackAdvisor([second])])
    if run.mode == "stream":
        with pytest.raises(ModelError, match="overloaded"):
            await run(made, "Hi")
        assert second.requests == []
    else:
        assert (await run(made, "Hi")).text == "whole"


async def test_on_partial_restart(run: Any) -> None:
    first, second = models([breaks], ["whole"])
    made = ChatClient(first, advisors=[ModelFallbackAdvisor([second], on_partial="restart")])
    response = await run(made, "Hi")
    assert (response.text, response.metadata["model"]) == ("whole", "second")
    assert sum(isinstance(event, Restarted) for event in run.events) == (run.mode == "stream")


async def test_a_failure_before_the_first_chunk_is_invisible(run: Any) -> None:
    first, second = models([BUSY], ["whole"])
    response = await run(ChatClient(first, advisors=[ModelFallbackAdvisor([second])]), "Hi")
    assert response.text == "whole"
    assert not any(isinstance(event, Restarted) for event in run.events)


async def test_each_model_is_retried_and_has_its_own_circuit(run: Any) -> None:
    async def no_wait(seconds: float) -> None:
        return

    first, second = models([BUSY] * 3, ["one", "two"])
    breaker = CircuitBreakerAdvisor(models=True)
    made = ChatClient(first, advisors=[ModelFallbackAdvisor([second]), RetryAdvisor(sleep=no_wait), breaker])
    assert (await run(made, "Hi")).text == "one"
    assert breaker.states() == {"first": "open", "second": "closed"}
    assert (await run(made, "Hi")).text == "two", "the first model is not asked while its circuit is open"
    assert len(first.requests) == 3


@pytest.mark.parametrize("bad", [[], None, ScriptedModel([]), ["gpt"], [ScriptedModel], "gpt"], ids=range(6))
def test_bad_models(bad: Any) -> None:
    with pytest.raises(ConfigurationError):
        ModelFallbackAdvisor(bad)


def test_bad_on_partial() -> None:
    with pytest.raises(ConfigurationError):
        ModelFallbackAdvisor([ScriptedModel([])], on_partial="repeat")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="on must be a function"):
        ModelFallbackAdvisor([ScriptedModel([])], on="transient")  # type: ignore[arg-type]
