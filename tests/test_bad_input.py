"""Mistakes in what a client is given: each is a `ConfigurationError` that says what, where and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import AuditAdvisor
from advisorchain.audit import LoggingSink
from advisorchain.testing import ScriptedModel


@pytest.mark.parametrize(
    "prompt",
    [None, 5, b"x", [], ["a"], {"role": "user"}, [{"role": "user", "content": "x"}], iter([UserMessage(content="x")])],
)
async def test_a_prompt_that_is_none(prompt: Any, run: Any) -> None:
    with pytest.raises(ConfigurationError, match="message"):
        await run(ChatClient(ScriptedModel([])), prompt)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"context": "abc"}, "context"),
        ({"context": 5}, "context"),
        ({"system": 5}, "system"),
        ({"system": "Be {mood}.", "variables": "brief"}, "variables"),
        ({"system": "Be {mood}.", "variables": {}}, "mood"),
        ({"system": "Be {mood}.", "variables": {"mood": "brief", "moood": "long"}}, "moood"),
        ({"variables": {"mood": "brief"}}, "variables"),
        ({"conversation_id": 5}, "conversation_id"),
        ({"return_direct": ["a"]}, "return_direct"),
        ({"return_direct": {"a": "yes"}}, "return_direct"),
        ({"tools": 5}, "tools"),
        ({"tools": [5]}, "5"),
        ({"advisors": 5}, "advisors"),
        ({"advisors": "memory"}, "advisors"),
        ({"options": "hot"}, "options"),
        ({"output_type": 5}, "output_type"),
    ],
)
async def test_a_setting_of_a_call(settings: dict[str, Any], said: str, run: Any) -> None:
    model = ScriptedModel([])
    with pytest.raises(ConfigurationError, match=said):
        await run(ChatClient(model), "?", **settings)
    assert model.requests == []


@pytest.mark.parametrize("name", ["nosuch", "max_tokens"])
async def test_an_unknown_setting_is_named(name: str, run: Any) -> None:
    with pytest.raises((TypeError, ConfigurationError), match=name):
        await run(ChatClient(ScriptedModel([])), "?", **{name: 1})


@pytest.mark.parametrize("model", [None, "gpt-5", 5, ScriptedModel])
def test_a_model_that_is_none(model: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"model|instance"):
        ChatClient(model)


def test_the_name_of_a_model_is_none_and_how_to_get_one_is_said() -> None:
    name: Any = "openai:gpt-5-mini"
    with pytest.raises(ConfigurationError, match=r"'openai:gpt-5-mini' is no model: .*plugins\.named_model\("):
        ChatClient(name)


@pytest.mark.parametrize("sink", ["audit.jsonl", None, LoggingSink], ids=["path", "none", "class"])
def test_an_audit_sink_that_is_none(sink: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"takes an audit sink, for example JsonLinesSink\(path\)"):
        AuditAdvisor(sink)


def test_a_system_text_that_is_none() -> None:
    text: Any = 5
    with pytest.raises(ConfigurationError, match="system"):
        ChatClient(ScriptedModel([]), system=text)


async def test_a_model_that_answers_with_something_else(run: Any) -> None:
    async def text_only(request: ChatRequest) -> Any:
        return "just text"

    with pytest.raises(ConfigurationError, match="text_only"):
        await run(ChatClient(text_only), "?")


@pytest.mark.parametrize("message", ["just text", UserMessage(content="x"), None], ids=["text", "user", "none"])
async def test_a_response_of_something_else_than_an_answer(message: Any, run: Any) -> None:
    async def wrong_model(request: ChatRequest) -> ChatResponse[Any]:
        return ChatResponse(message)

    with pytest.raises(ConfigurationError, match=rf"AssistantMessage, not {type(message).__name__}"):
        await run(ChatClient(wrong_model), "?")

    @chat_advisor(order=300)
    async def wrong_advisor(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return (await call_next(request)).replace(message=message)

    with pytest.raises(ConfigurationError, match=rf"AssistantMessage, not {type(message).__name__}"):
        await run(ChatClient(ScriptedModel(["x"]), advisors=[wrong_advisor]), "?")


async def test_a_model_that_is_not_async(run: Any) -> None:
    def blocking(request: ChatRequest) -> Any:
        return ChatResponse(AssistantMessage(content="x"))

    with pytest.raises(ConfigurationError, match=r"blocking.*async"):
        await run(ChatClient(blocking), "?")


def test_a_plain_function_as_an_advisor() -> None:
    async def plain(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request)

    with pytest.raises(ConfigurationError, match=r"plain.*@chat_advisor"):
        ChatClient(ScriptedModel([]), advisors=[plain])


class BlockingAdvisor(Advisor):
    order = 300

    def advise(self, request: ChatRequest, call_next: ChatNext) -> Any:
        return ChatResponse(AssistantMessage(content="x"))


async def test_an_advisor_that_is_not_async(run: Any) -> None:
    """Refused when the chain is built, or at the latest when it answers; either way by name."""
    with pytest.raises(ConfigurationError, match=r"blocking.*async"):
        await run(ChatClient(ScriptedModel([]), advisors=[BlockingAdvisor()]), "?")


async def test_an_advisor_that_returns_the_awaitable_of_the_rest_is_fine(run: Any) -> None:
    """A sync function that gives an awaitable is an async one for all that call it."""

    class Forwarding(Advisor):
        order = 300

        def advise(self, request: ChatRequest, call_next: ChatNext) -> Any:
            return call_next(request)

    assert (await run(ChatClient(ScriptedModel(["x"]), advisors=[Forwarding()]), "?")).text == "x"


def test_a_class_of_tools() -> None:
    class Desk:
        @tool
        async def book(self, city: str) -> str:
            """Book."""
            return city

    with pytest.raises(ConfigurationError, match=r"Desk is a class.*instance"):
        ChatClient(ScriptedModel([]), tools=[Desk])
