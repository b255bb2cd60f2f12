"""Tools that a stranger describes, and redactions that must leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisorchain import Advisor, ChatClient, ConfigurationError, Order, TextDelta, Tool, ToolCall, ToolFinished, tool
from advisorchain.testing import ScriptedModel


def test_a_schema_that_refers_elsewhere_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "string", "const": "SECRET"}')
    for reference in (secret.as_uri(), "http://127.0.0.1:9/schema", "other.json#/a"):
        schema = {"type": "object", "properties": {"a": {"$ref": reference}}}
        with pytest.raises(ConfigurationError, match="nothing is fetched"):
            Tool.from_schema("t", lambda arguments: 1, description="D.", input_schema=schema)


async def test_no_schema_reads_a_file(run: Any, tmp_path: Path) -> None:
    """Also one that gets past the check at registration."""
    from advisorchain.tools.schema_arguments import SchemaArguments

    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "string", "const": "SECRET"}')
    made = Tool.from_schema("t", lambda arguments: 1, description="D.")
    made.__dict__["_arguments"] = SchemaArguments({"type": "object", "properties": {"a": {"$ref": secret.as_uri()}}})
    model = ScriptedModel([[ToolCall("t", {"a": "x"})], "done"])
    await run(ChatClient(model, tools=[made]), "go")
    assert "SECRET" not in model.requests[1].messages[-1].text


def test_local_references_still_work() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    made = Tool.from_schema("t", lambda arguments: 1, description="D.", input_schema=schema)
    assert made.validate({"a": 1}) == {"a": 1}


class Redactor(Advisor):
    order = Order.GUARD_ROUND
    streams = "hold"

    async def advise_tool(self, invocation: Any, call_next: Any) -> Any:
        result = await call_next(invocation)
        return result.replace(content=result.content.replace("4711", "***"))


async def test_a_redacted_result_leaves_no_value_behind() -> None:
    @tool(return_direct=True)
    def pin() -> dict[str, str]:
        """The pin."""
        return {"pin": "4711"}

    client = ChatClient(ScriptedModel([[ToolCall("pin")]]), tools=[pin], advisors=[Redactor()])
    async with client.stream("pin?") as stream:
        events = [event async for event in stream]
        response = await stream.response()
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    for result in (finished.result, *response.direct_results):
        assert "4711" not in repr((result.content, result.artifact, result.structured, result.parts))
    assert "***" in response.text


@pytest.mark.parametrize("setting", [{"streams": "held"}, {"inside": "loop"}, {"outside": "the tool loop"}])
def test_a_misspelt_setting_of_an_advisor_is_refused(setting: dict[str, str]) -> None:
    advisor = type("Typo", (Redactor,), setting)()
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        ChatClient(ScriptedModel([]), advisors=[advisor])


async def test_a_replayed_event_is_stamped_anew() -> None:
    """One event object, emitted in two rounds and in two turns, is each time an event of its own."""
    hi = TextDelta("hi")

    async def model(request: Any) -> Any:
        from advisorchain import AssistantMessage, ChatResponse

        await request.emit(hi)
        calls = () if request.round == 2 else (ToolCall("one"),)
        return ChatResponse(AssistantMessage(content="hi", tool_calls=calls))

    @tool
    def one() -> int:
        """One."""
        return 1

    client = ChatClient(model, tools=[one])
    for _ in range(2):
        async with client.stream("go") as stream:
            deltas = [(event.round, event.text) async for event in stream if isinstance(event, TextDelta)]
        assert deltas == [(1, "hi"), (2, "hi")]
