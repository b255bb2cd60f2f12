"""Return direct: a tool's result is the answer, without another model call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from advisorchain import (
    ChatClient,
    ConfigurationError,
    ImagePart,
    OutputError,
    RoundStarted,
    TextDelta,
    TextPart,
    Tool,
    ToolCall,
    ToolError,
    ToolMessage,
    ToolResult,
    UserMessage,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.advisors import ReturnDirectAdvisor, ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


@tool(return_direct=True)
def direct(text: str = "direct result") -> str:
    """A direct tool."""
    if text == "fail":
        raise ToolError("it failed")
    return text


@tool(return_direct=True)
def second() -> str:
    """Another direct tool."""
    return "second result"


@tool
def normal() -> str:
    """A normal tool."""
    return "normal result"


TOOLS = [direct, second, normal]
DIRECT, SECOND, NORMAL = ToolCall("direct"), ToolCall("second"), ToolCall("normal")
FAILING, GHOST = ToolCall("direct", {"text": "fail"}), ToolCall("ghost")


def fresh(*calls: ToolCall) -> list[ToolCall]:
    """The calls with new ids."""
    return [ToolCall(call.name, call.arguments) for call in calls]


async def test_one_direct_call_is_one_model_call(run: Any) -> None:
    model = ScriptedModel([["One moment.", DIRECT]])
    response = await run(ChatClient(model, tools=TOOLS), "go")
    assert len(model.requests) == 1 and response.text == "direct result"
    assert response.stop_reason == "return_direct" and response.tool_calls == ()
    assert [m.role for m in response.new_messages] == ["assistant", "tool", "assistant"]
    assert response.message.text == "direct result" and "return_direct" not in response.metadata
    (result,) = response.direct_results
    assert (result.name, result.content, result.return_direct) == ("direct", "direct result", True)
    if run.mode == "stream":
        rounds = {event.round for event in run.events if type(event) is RoundStarted}
        text = {n: "".join(e.text for e in run.events if type(e) is TextDelta and e.round == n) for n in rounds}
        assert text == {1: "One moment.", 2: "direct result"}


@pytest.mark.parametrize(
    ("policy", "calls", "answer"),
    [
        ("all", [DIRECT, SECOND], "direct result\n\nsecond result"),
        ("all", [SECOND, DIRECT], "second result\n\ndirect result"),
        ("any", [DIRECT, SECOND], "direct result\n\nsecond result"),
        ("first", [SECOND, DIRECT], "second result"),
        ("all", [DIRECT, NORMAL], None),
        ("any", [DIRECT, NORMAL], "direct result"),
        ("any", [NORMAL, DIRECT], "direct result"),
        ("first", [NORMAL, DIRECT, SECOND], "direct result"),
        ("all", [FAILING], None),
        ("any", [FAILING], None),
        ("first", [FAILING], None),
        ("all", [FAILING, SECOND], None),
        ("any", [FAILING, SECOND], "second result"),
        ("first", [FAILING, SECOND], "second result"),
        ("all", [DIRECT, GHOST], None),
        ("any", [DIRECT, GHOST], "direct result"),
        ("first", [GHOST, DIRECT], "direct result"),
        ("all", [NORMAL], None),
        ("any", [NORMAL], None),
        ("first", [NORMAL], None),
        ("all", [GHOST], None),
    ],
)
async def test_policies(run: Any, policy: Any, calls: list[ToolCall], answer: str | None) -> None:
    calls = fresh(*calls)
    model = ScriptedModel([calls] if answer is not None else [calls, "the model's answer"])
    response = await run(ChatClient(model, tools=TOOLS, advisors=[ReturnDirectAdvisor(policy=policy)]), "go")
    model.assert_finished()
    if answer is not None:
        assert (response.text, response.stop_reason) == (answer, "return_direct")
        assert "\n\n".join(result.content for result in response.direct_results) == answer
    else:
        assert (response.text, response.stop_reason) == ("the model's answer", "final")
        assert response.direct_results == ()
        results = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
        assert [m.name for m in results] == [call.name for call in calls], "the model sees every result"
    assert len([m for m in response.new_messages if isinstance(m, ToolMessage)]) == len(calls)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([DIRECT, NORMAL], ["normal", "mixed"]),
        ([FAILING], ["direct", "error"]),
        ([FAILING, SECOND], ["direct", "error"]),
        ([DIRECT, GHOST], ["ghost", "unknown"]),
    ],
)
async def test_why_a_direct_call_went_back_to_the_model(run: Any, calls: list[ToolCall], words: list[str]) -> None:
    model = ScriptedModel([fresh(*calls), "answer"])
    response = await run(ChatClient(model, tools=TOOLS), "go")
    assert all(word in response.metadata["return_direct"] for word in words)


async def test_an_override_is_a_reason_and_nothing_is_none(run: Any) -> None:
    client = ChatClient(ScriptedModel([fresh(DIRECT), "answer"]), tools=TOOLS)
    response = await run(client, "go", return_direct={"direct": False})
    assert "overridden" in response.metadata["return_direct"]
    response = await run(ChatClient(ScriptedModel([fresh(NORMAL), "answer"]), tools=TOOLS), "go")
    assert "return_direct" not in response.metadata


async def test_a_failed_direct_tool_is_repaired_and_then_direct(run: Any) -> None:
    model = ScriptedModel([fresh(FAILING), [ToolCall("direct", {"text": "repaired"})]])
    response = await run(ChatClient(model, tools=TOOLS), "go")
    assert (response.text, response.stop_reason) == ("repaired", "return_direct")
    assert model.requests[1].messages[-1].text == "it failed"


async def test_bad_arguments_of_a_direct_tool_go_back_to_the_model(run: Any) -> None:
    model = ScriptedModel([[ToolCall("direct", "{")], [ToolCall("direct", {"txt": "x"})], "sorry"])
    response = await run(ChatClient(model, tools=TOOLS), "go")
    assert response.text == "sorry" and len(model.requests) == 3


@pytest.mark.parametrize("calls", [[FAILING], [FAILING, SECOND]])
async def test_errors_may_be_the_answer(run: Any, calls: list[ToolCall]) -> None:
    model = ScriptedModel([fresh(*calls)])
    response = await run(ChatClient(model, tools=TOOLS, advisors=[ReturnDirectAdvisor(errors=True)]), "go")
    assert response.text.startswith("it failed") and response.direct_results[0].is_error


async def test_a_degraded_result_is_never_direct(run: Any) -> None:
    @tool_advisor(order=800)
    async def fallback(invocation: Any, call_next: Any) -> Any:
        return ToolResult("a guess", failure={"kind": "degraded"})

    model = ScriptedModel([fresh(DIRECT), "the model's answer"])
    response = await run(ChatClient(model, tools=TOOLS, advisors=[fallback]), "go")
    assert response.text == "the model's answer"


@pytest.mark.parametrize(
    ("flag", "client", "call", "is_direct"),
    [
        (False, None, None, False),
        (True, None, None, True),
        (False, True, None, True),
        (True, False, None, False),
        (False, False, True, True),
        (True, True, False, False),
        (True, False, True, True),
    ],
)
async def test_the_call_wins_over_the_client_over_the_tool(
    run: Any, flag: bool, client: bool | None, call: bool | None, is_direct: bool
) -> None:
    model = ScriptedModel([[ToolCall("normal")]] if is_direct else [[ToolCall("normal")], "answer"])
    overrides = {} if client is None else {"return_direct": {"normal": client}}
    asked = ChatClient(model, tools=[normal.replace(return_direct=flag)], **overrides)  # type: ignore[arg-type]
    response = await run(asked, "go", return_direct=None if call is None else {"normal": call})
    assert (response.stop_reason == "return_direct") is is_direct
    model.assert_finished()


class Row(BaseModel):
    """A row."""

    id: int
    name: str


TEXTS = ["", " spaces kept \n", '{"b": 1.0,  "a": [ ]}', "ünï😀\r\n\t", "```json\n{}\n```", "# *markdown* <b>"]


@pytest.mark.parametrize("text", TEXTS)
async def test_text_is_the_answer_byte_for_byte(run: Any, text: str) -> None:
    response = await run(ChatClient(ScriptedModel([[ToolCall("direct", {"text": text})]]), tools=TOOLS), "go")
    assert response.text == text and response.stop_reason == "return_direct"


async def test_objects_go_through_their_converter_once(run: Any) -> None:
    converted: list[Any] = []

    def convert(value: Any) -> str:
        converted.append(value)
        return json.dumps(value.model_dump(), indent=2)

    async def give() -> Row:
        return Row(id=1, name="a")

    made = Tool.from_function(give, description="Give.", return_direct=True)
    response = await run(ChatClient(ScriptedModel([[ToolCall("give")]]), tools=[made]), "go")
    assert response.text == '{"id":1,"name":"a"}' and response.direct_results[0].artifact == Row(id=1, name="a")
    made = made.replace(result_converter=convert)
    response = await run(ChatClient(ScriptedModel([[ToolCall("give")]]), tools=[made]), "go")
    assert response.text == '{\n  "id": 1,\n  "name": "a"\n}' and len(converted) == 1


async def test_with_an_output_type(run: Any) -> None:
    async def give(name: str) -> Any:
        return {"id": 1, "name": name} if name else "no JSON"

    made = Tool.from_function(give, description="Give.", return_direct=True)
    client = ChatClient(ScriptedModel([[ToolCall("give", {"name": "a"})]]), tools=[made])
    response = await run(client, "go", output_type=Row)
    assert response.output == Row(id=1, name="a") and response.stop_reason == "return_direct"
    client = ChatClient(ScriptedModel([[ToolCall("give", {"name": ""})]]), tools=[made])
    with pytest.raises(OutputError) as caught:
        await run(client, "go", output_type=Row)
    assert caught.value.text == "no JSON"


async def test_images_and_parts_are_kept(run: Any) -> None:
    image = ImagePart(data=b"png", media_type="image/png")

    @tool(return_direct=True)
    def draw(text: str = "") -> Any:
        """Draw."""
        return [TextPart(text=text), image] if text else image

    response = await run(ChatClient(ScriptedModel([[ToolCall("draw", {"text": "see"})]]), tools=[draw]), "go")
    assert response.message.content == (TextPart(text="see"), image) and response.text == "see"
    response = await run(ChatClient(ScriptedModel([[ToolCall("draw")]]), tools=[draw]), "go")
    assert response.message.content == (image,) and response.text == ""
    assert response.direct_results[0].artifact is image


async def test_combine(run: Any) -> None:
    advisor = ReturnDirectAdvisor(combine=lambda results: " + ".join(f"{r.name}={r.content}" for r in results))
    response = await run(ChatClient(ScriptedModel([fresh(SECOND, DIRECT)]), tools=TOOLS, advisors=[advisor]), "go")
    assert response.text == "second=second result + direct=direct result"


async def test_hint(run: Any) -> None:
    model = ScriptedModel([fresh(NORMAL), fresh(DIRECT)])
    client = ChatClient(model, tools=TOOLS, advisors=[ReturnDirectAdvisor(hint=True)], system="Be kind.")
    response = await run(client, "go")
    for request in model.requests:
        assert [t.description for t in request.tools] == [
            "[DIRECT] A direct tool.",
            "[DIRECT] Another direct tool.",
            "A normal tool.",
        ]
        system = [m for m in request.messages if m.role == "system"]
        assert len(system) == 1 and system[0].text.startswith("Be kind.\n\n") and system[0].text.count("[DIRECT]") == 1
    assert response.text == "direct result"
    model = ScriptedModel(["hi"])
    await run(ChatClient(model, tools=[normal], advisors=[ReturnDirectAdvisor(hint=True)]), "go")
    assert model.requests[0].messages[0].role == "user", "without a direct tool nothing is said"
    model = ScriptedModel(["hi"])
    own = ReturnDirectAdvisor(hint=True, mark="(!) ", instruction="Careful.")
    await run(ChatClient(model, tools=TOOLS, advisors=[own]), "go", return_direct={"second": False, "normal": True})
    assert [t.description[:4] for t in model.requests[0].tools] == ["(!) ", "Anot", "(!) "]
    assert model.requests[0].messages[0].text == "Careful."


async def test_the_next_turn_works(run: Any) -> None:
    model = ScriptedModel([fresh(DIRECT, SECOND), "You saw two results."])
    client = ChatClient(model, tools=TOOLS)
    first = await run(client, "go")
    history = [UserMessage(content="go"), *first.new_messages, UserMessage(content="what did I see?")]
    assert (await run(client, history)).text == "You saw two results."
    assert model.requests[1].messages == tuple(history)


async def test_dynamic_and_wrapped_tools(run: Any) -> None:
    @chat_advisor(order=600)
    async def adding(request: Any, call_next: Any) -> Any:
        wrapped = direct.replace(name="wrapped", description="Wrapped.")
        return await call_next(request.replace(tools=[*request.tools, wrapped]))

    model = ScriptedModel([[ToolCall("wrapped")]])
    response = await run(ChatClient(model, advisors=[adding]), "go")
    assert (response.text, response.stop_reason) == ("direct result", "return_direct")
    model = ScriptedModel([[ToolCall("wrapped")], "answer"])
    response = await run(ChatClient(model, advisors=[adding]), "go", return_direct={"wrapped": False})
    assert response.text == "answer"


async def test_a_short_circuited_tool_call_is_direct_too(run: Any) -> None:
    @tool_advisor(order=700)
    async def cached(invocation: Any, call_next: Any) -> Any:
        return ToolResult("from the cache")

    response = await run(ChatClient(ScriptedModel([fresh(DIRECT)]), tools=TOOLS, advisors=[cached]), "go")
    assert (response.text, response.stop_reason) == ("from the cache", "return_direct")


async def test_later_rounds_and_earlier_results(run: Any) -> None:
    model = ScriptedModel([fresh(NORMAL), fresh(DIRECT, NORMAL), fresh(SECOND)])
    response = await run(ChatClient(model, tools=TOOLS), "go")
    assert response.text == "second result" and [r.name for r in response.direct_results] == ["second"]
    assert len(model.requests) == 3


async def test_the_direct_answer_passes_inner_and_outer_advisors(run: Any) -> None:
    seen: list[str] = []

    def watching(order: int, name: str) -> Any:
        @chat_advisor(order=order, name=name)
        async def watch(request: Any, call_next: Any) -> Any:
            response = await call_next(request)
            seen.append(f"{name}:{response.stop_reason}")
            return response

        return watch

    advisors = [watching(300, "outer"), watching(550, "inside"), watching(700, "further")]
    await run(ChatClient(ScriptedModel([fresh(DIRECT)]), tools=TOOLS, advisors=advisors), "go")
    assert seen == ["further:final", "inside:final", "inside:return_direct", "outer:return_direct"]


async def test_at_a_limit_nothing_is_direct(run: Any) -> None:
    model = ScriptedModel([fresh(NORMAL), fresh(DIRECT), "last"])
    response = await run(ChatClient(model, tools=TOOLS, advisors=[ToolCallingAdvisor(max_rounds=1)]), "go")
    assert (response.text, response.stop_reason, response.direct_results) == ("last", "limit", ())


async def test_a_retry_of_the_turn_is_not_answered_from_old_results(run: Any) -> None:
    @chat_advisor(order=300)
    async def twice(request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)

    model = ScriptedModel([fresh(DIRECT), "fresh"])
    response = await run(ChatClient(model, tools=TOOLS, advisors=[twice]), "go")
    assert response.text == "fresh" and response.stop_reason == "final" and response.direct_results == ()


def test_a_wrong_policy_and_a_wrong_place() -> None:
    with pytest.raises(ConfigurationError, match="policy must be"):
        ReturnDirectAdvisor(policy="some")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be inside the tool loop"):
        ChatClient(ScriptedModel([]), advisors=[ReturnDirectAdvisor(order=100)])


@pytest.mark.parametrize("overrides", [["direct"], {"direct": "yes"}, "direct"], ids=str)
async def test_overrides_of_a_wrong_kind(run: Any, overrides: Any) -> None:
    with pytest.raises(ConfigurationError, match="return_direct"):
        ChatClient(ScriptedModel([]), tools=TOOLS, return_direct=overrides)
    with pytest.raises(ConfigurationError, match="return_direct"):
        await run(ChatClient(ScriptedModel(["hi"]), tools=TOOLS), "go", return_direct=overrides)
