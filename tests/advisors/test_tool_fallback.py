"""ToolFallbackAdvisor: failures in plain words, their record, and the guidance that the model sees."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from advisorchain import (
    ChatClient,
    ConfigurationError,
    ModelError,
    Order,
    SystemMessage,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolPermissionError,
    ToolResult,
    ToolTimeoutError,
    TurnAbortedError,
    tool,
    tool_advisor,
)
from advisorchain.advisors import (
    FALLBACK_LANGUAGE,
    FallbackTexts,
    RetryAdvisor,
    ToolCacheAdvisor,
    ToolFallbackAdvisor,
)
from advisorchain.failures import unwrapped
from advisorchain.testing import ScriptedModel

SECRET = "sk-12345 at postgres://admin:hunter2@db"
GUIDANCE = "Do not give up the whole task"


def budget(*steps: Any, **settings: Any) -> Tool:
    """A tool that raises or returns its steps in turn."""
    left = list(steps)

    async def handle(arguments: dict[str, Any]) -> Any:
        step = left.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    settings = {"title": "Budget service", "description": "Budget.", **settings}
    return Tool.from_schema("get_budget", handle, **settings)


async def fail_with(run: Any, step: Any, **settings: Any) -> tuple[ToolResult, ScriptedModel]:
    """The result that the model saw of a tool that did ``step``."""
    model = ScriptedModel([ToolCall("get_budget"), "done"])
    await run(ChatClient(model, tools=[budget(step)], advisors=[ToolFallbackAdvisor(**settings)]), "Budget?")
    return model.requests[-1].tool_results[0], model


@pytest.mark.parametrize(
    ("error", "failure", "kind"),
    [
        (ConnectionResetError(SECRET), "transient", "degraded"),
        (TimeoutError(SECRET), "transient", "degraded"),
        (ToolTimeoutError("The tool 'get_budget' did not answer within 60 seconds."), "transient", "degraded"),
        (MCPError(-32603, SECRET), "transient", "degraded"),
        (ModelError(SECRET, transient=True), "transient", "degraded"),
        (PermissionError(SECRET), "permission", "denied"),
        (ToolPermissionError("read the budget"), "permission", "denied"),
        (ValueError(SECRET), "permanent", "failed"),
        (SystemExit(SECRET), "permanent", "failed"),
        (ExceptionGroup(SECRET, [ConnectionResetError(SECRET)]), "transient", "degraded"),
        (BaseExceptionGroup(SECRET, [SystemExit(SECRET), ValueError(SECRET)]), "permanent", "failed"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_classes_and_kinds(run: Any, error: BaseException, failure: str, kind: str) -> None:
    result, _ = await fail_with(run, error)
    leaf = unwrapped(error)
    assert result.is_error
    assert result.failure == {
        "class": failure,
        "kind": kind,
        "exception": type(leaf).__name__,
        "attempts": 1,
        "source": "local",
    }
    assert "Budget service" in result.content
    expected = {"degraded": "temporarily unavailable", "denied": "was denied", "failed": "failed and gave no result"}
    assert expected[kind] in result.content
    assert SECRET not in result.content and "Traceback" not in result.content


async def test_a_permission_error_names_the_action(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    result, _ = await fail_with(run, ToolPermissionError("read the budget"), contact="finance@example.com")
    assert result.content == (
        '"Budget service" was denied: the user does not have the permission to read the budget. Do not try again. '
        "Contact: finance@example.com."
    )
    (said,) = [record for record in caplog.records if "failed (permission)" in record.getMessage()]
    assert "read the budget" in said.getMessage() and said.exc_info is None, "a no on purpose has no stack trace"


async def test_a_failure_has_its_type_as_the_reason(run: Any) -> None:
    result, _ = await fail_with(run, KeyError(SECRET))
    assert "(KeyError)" in result.content
    result, _ = await fail_with(run, KeyError("row"), reason=lambda error: "no such row")
    assert "(no such row)" in result.content


async def test_chinese(run: Any) -> None:
    result, model = await fail_with(run, ConnectionResetError(), language="zh", contact="财务部")
    assert result.content == "“Budget service”暂时不可用，未返回结果。请暂不要再次调用。如需帮助，请联系：财务部。"
    system = model.requests[-1].messages[0]
    assert "不要放弃整个任务" in system.text and "Budget service" in system.text and "财务部" in system.text
    result, _ = await fail_with(run, ToolPermissionError("查看预算"), language="zh")
    assert result.content == "“Budget service”被拒绝：用户没有“查看预算”的权限。请不要重试。"
    result, _ = await fail_with(run, ValueError(), language="zh")
    assert "执行失败" in result.content and "ValueError" in result.content


async def test_the_language_of_one_call(run: Any) -> None:
    for language, expected in (
        ("zh", "暂时不可用"),
        ("en", "temporarily unavailable"),
        ("fr", "temporarily unavailable"),
    ):
        model = ScriptedModel([ToolCall("get_budget"), "done"])
        made = ChatClient(model, tools=[budget(TimeoutError())], advisors=[ToolFallbackAdvisor()])
        await run(made, "Budget?", context={FALLBACK_LANGUAGE: language})
        assert expected in model.requests[-1].tool_results[0].content


async def test_templates(run: Any) -> None:
    result, _ = await fail_with(run, TimeoutError(), templates={"en": {"degraded": "{title} rests."}})
    assert result.content == "Budget service rests."
    german = FallbackTexts(
        degraded="{title} ruht.{contact}", denied="{title}: nein{action}", failed="{title}: {reason}",
        action=" ({action})", contact=" Frag {contact}!", guidance="Ohne {titles}.{contact}",
    )  # fmt: skip
    result, model = await fail_with(run, TimeoutError(), language="de", templates={"de": german}, contact="Eva")
    assert result.content == "Budget service ruht. Frag Eva!"
    assert model.requests[-1].messages[0].text == "Ohne Budget service. Frag Eva!"


async def test_braces_in_a_title_are_text(run: Any) -> None:
    model = ScriptedModel([ToolCall("get_budget"), "done"])
    broken = budget(TimeoutError(), title="{0.__class__} {contact}")
    await run(ChatClient(model, tools=[broken], advisors=[ToolFallbackAdvisor(contact="{title}")]), "Budget?")
    assert '"{0.__class__} {contact}" is temporarily' in model.requests[-1].tool_results[0].content
    assert "Contact: {title}." in model.requests[-1].tool_results[0].content


# A tool's own text ---------------------------------------------------------------------------------------------------


async def test_a_tool_errors_own_text_is_kept(run: Any) -> None:
    result, model = await fail_with(run, ToolError("There is no department 7; try 1 to 5."))
    assert result.content == "There is no department 7; try 1 to 5."
    assert result.failure is not None
    assert (result.failure["class"], result.failure["exception"]) == ("permanent", "ToolError")
    assert all(message.role != "system" for message in model.requests[-1].messages), "nothing is unavailable"


async def test_what_the_model_can_repair_is_left_alone(run: Any) -> None:
    @tool
    def add(a: int) -> int:
        """Add."""
        return a

    model = ScriptedModel([[ToolCall("add", {"a": "x"}), ToolCall("nonsense")], "done"])
    await run(ChatClient(model, tools=[add], advisors=[ToolFallbackAdvisor()]), "Add")
    invalid, unknown = model.requests[-1].tool_results
    assert "valid integer" in invalid.content
    assert "There is no tool 'nonsense'" in unknown.content


async def test_control_flow_passes(run: Any) -> None:
    model = ScriptedModel([ToolCall("get_budget"), "never"])
    made = ChatClient(model, tools=[budget(TurnAbortedError("stop"))], advisors=[ToolFallbackAdvisor()])
    with pytest.raises(TurnAbortedError):
        await run(made, "Budget?")


async def test_cancellation_passes(run: Any) -> None:
    @tool
    async def hang() -> None:
        """Hang."""
        await anyio.sleep_forever()

    made = ChatClient(ScriptedModel([ToolCall("hang")]), tools=[hang], advisors=[ToolFallbackAdvisor()])
    with anyio.move_on_after(0.05) as scope:
        await run(made, "Hang")
    assert scope.cancelled_caught


# Results that are failures in disguise -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "MCP error -32603: Internal error",
        "MCP error -32000: Connection closed",
        "MCP error: -32001 Request timed out",
        "Error: MCP error -32603",
    ],
)
async def test_a_disguised_failure(run: Any, text: str) -> None:
    result, model = await fail_with(run, text)
    assert result.is_error and "temporarily unavailable" in result.content
    assert result.failure is not None
    assert (result.failure["class"], result.failure["kind"]) == ("transient", "degraded")
    assert GUIDANCE in model.requests[-1].messages[0].text


@pytest.mark.parametrize(
    "text",
    [
        "MCP error -32602: invalid params: department must be a number",
        "MCP error -32601: no such tool",
        "About the text 'MCP error -32603': it is an internal error.",
        "MCP error -326030",
        "MCP error -32603: " + "a long page about it. " * 100,
        "MCP error",
    ],
)
async def test_no_disguise(run: Any, text: str) -> None:
    result, _ = await fail_with(run, text)
    assert result.content == text
    assert result.failure is None


async def test_matchers_by_source(run: Any) -> None:
    def busy(result: ToolResult) -> Any:
        return "transient" if result.content == "BUSY" else None

    for source, text, degraded in (
        ("crm", "BUSY", True), ("crm", "MCP error -32603", False), ("docs", "MCP error -32603", False),
        ("docs", "BUSY", False), ("other", "MCP error -32603", True),
    ):  # fmt: skip
        model = ScriptedModel([ToolCall("get_budget"), "done"])
        fallback = ToolFallbackAdvisor(matchers={"crm": busy, "docs": None})
        await run(ChatClient(model, tools=[budget(text, source=source)], advisors=[fallback]), "Budget?")
        result = model.requests[-1].tool_results[0]
        assert (result.failure is not None) == degraded, (source, text)
        assert not degraded or result.failure["source"] == source  # type: ignore[index]


async def test_a_matcher_that_gives_no_class(run: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"matchers\['local'\] gave True for a result of the tool 'get_budget'"
    ):
        await fail_with(run, "80 EUR", matchers={"local": lambda result: True})


# Guidance ------------------------------------------------------------------------------------------------------------


async def test_guidance_is_there_while_something_is_unavailable(run: Any) -> None:
    model = ScriptedModel([ToolCall("get_budget"), ToolCall("get_budget"), ToolCall("get_budget"), "done"])
    tools = [budget(ConnectionResetError(), TimeoutError(), "80 EUR")]
    fallback = ToolFallbackAdvisor(contact="finance@example.com")
    made = ChatClient(model, tools=tools, advisors=[fallback], system="You are a travel desk.")
    response = await run(made, "Budget?")
    systems = [request.messages[0].text for request in model.requests]
    assert [system.count(GUIDANCE) for system in systems] == [0, 1, 1, 0], "added once, gone when all is back"
    assert systems[0] == systems[3] == "You are a travel desk."
    assert systems[1].startswith("You are a travel desk.\n\nSome tools gave no result: Budget service.")
    assert "say clearly what is missing" in systems[1] and systems[1].endswith("Contact: finance@example.com.")
    assert all(sum(message.role == "system" for message in request.messages) == 1 for request in model.requests)
    assert not any(isinstance(message, SystemMessage) for message in response.new_messages)


async def test_guidance_names_everything_that_is_missing(run: Any) -> None:
    async def rates(arguments: dict[str, Any]) -> str:
        raise PermissionError

    other = Tool.from_schema("rates", rates, title="Rates", description="Rates.")
    model = ScriptedModel([[ToolCall("get_budget"), ToolCall("rates")], ToolCall("get_budget"), "done"])
    await run(ChatClient(model, tools=[budget(TimeoutError(), "8"), other], advisors=[ToolFallbackAdvisor()]), "?")
    assert "no result: Budget service, Rates." in model.requests[1].messages[0].text
    assert "no result: Rates." in model.requests[2].messages[0].text


@pytest.mark.parametrize("first", ["get_budget", "rates"])
async def test_guidance_is_the_same_whichever_fails_first(run: Any, first: str) -> None:
    """Calls of one round run at once; a recording, and a provider's cache, know the text of one run only."""
    failed = anyio.Event()

    async def fail(name: str, arguments: dict[str, Any]) -> str:
        if name != first:
            await failed.wait()
        failed.set()
        raise TimeoutError

    names = ("get_budget", "rates")
    tools = [Tool.from_schema(name, partial(fail, name), description="Asks.") for name in names]
    model = ScriptedModel([[ToolCall("rates"), ToolCall("get_budget")], "done"])
    await run(ChatClient(model, tools=tools, advisors=[ToolFallbackAdvisor()]), "?")
    assert "no result: get budget, rates." in model.requests[1].messages[0].text


@pytest.mark.parametrize("raises", [True, False], ids=["ToolError", "error result, as MCP servers give it"])
async def test_a_no_of_the_tool_is_an_answer(run: Any, raises: bool) -> None:
    """But neither arguments that never reached it nor a disguised failure are."""
    calls = [ToolCall("get_budget"), ToolCall("get_budget", "{"), *[ToolCall("get_budget")] * 2]
    model = ScriptedModel([*([each] for each in calls), "done"])
    text = "There is no department 7."
    no = ToolError(text) if raises else ToolResult.error(text)
    tools = [budget(TimeoutError(), "MCP error -32000: closed", no)]
    await run(ChatClient(model, tools=tools, advisors=[ToolFallbackAdvisor()]), "Budget?")
    guided = [request.messages[0].role == "system" for request in model.requests]
    assert guided == [False, True, True, True, False]


async def test_guidance_in_a_turn_that_shared_the_failure_of_another(run: Any) -> None:
    both, runs = [anyio.Event(), anyio.Event()], 0

    async def slow(arguments: dict[str, Any]) -> str:
        nonlocal runs
        runs += 1
        await both[1].wait()
        await anyio.sleep(0.02)
        raise TimeoutError

    made = Tool.from_schema("get_budget", slow, description="Budget.", read_only=True)
    cache, models = ToolCacheAdvisor(), [ScriptedModel([ToolCall("get_budget"), "sorry"]) for _ in both]

    @tool_advisor(order=Order.TOOL_CACHE - 1, name="seen")
    async def seen(invocation: Any, call_next: Any) -> ToolResult:
        both[both[0].is_set()].set()
        return await call_next(invocation)  # type: ignore[no-any-return]

    async def ask(model: ScriptedModel) -> None:
        chat = ChatClient(model, tools=[made], advisors=[cache, ToolFallbackAdvisor(), seen])
        await type(run)(run.mode)(chat, "Budget?")

    async with anyio.create_task_group() as group:
        for model in models:
            group.start_soon(ask, model)
    assert runs == 1
    for model in models:
        assert model.requests[1].messages[0].text.count(GUIDANCE) == 1


async def test_guidance_ends_with_the_turn(run: Any) -> None:
    model = ScriptedModel([ToolCall("get_budget"), "sorry", "hello"])
    made = ChatClient(model, tools=[budget(TimeoutError())], advisors=[ToolFallbackAdvisor()])
    await run(made, "Budget?")
    await run(made, "Hi")
    assert GUIDANCE in model.requests[1].messages[0].text
    assert [message.role for message in model.requests[2].messages] == ["user"]


async def test_guidance_can_be_left_out(run: Any) -> None:
    _, model = await fail_with(run, TimeoutError(), guidance=False)
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]


async def test_a_sub_agent_and_its_caller_have_their_own_guidance(run: Any) -> None:
    inner_model = ScriptedModel([ToolCall("get_budget"), "I could not find it"])
    inner = ChatClient(inner_model, tools=[budget(TimeoutError())], advisors=[ToolFallbackAdvisor()])
    fallback = ToolFallbackAdvisor()
    model = ScriptedModel([ToolCall("ask", {"prompt": "Budget?"}), "done"])
    await run(ChatClient(model, tools=[inner.as_tool("ask", "Ask")], advisors=[fallback]), "?")
    assert GUIDANCE in inner_model.requests[1].messages[0].text
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]


async def test_an_operators_permissions_come_from_the_context(run: Any) -> None:
    """The tool checks the operator first, then the order's state, then acts."""
    approved: list[str] = []

    @tool
    async def approve(order_id: str, context: ToolContext) -> str:
        """Approve an order."""
        if context.context.get("operator") != "eva":
            raise ToolPermissionError(f"approve {order_id}")
        if order_id in approved:
            raise ToolError(f"{order_id} is approved already.")
        approved.append(order_id)
        return f"{order_id} approved"

    async def ask(operator: str) -> ToolResult:
        model = ScriptedModel([ToolCall("approve", {"order_id": "TR2"}), "done"])
        made = ChatClient(model, tools=[approve], advisors=[RetryAdvisor(), ToolFallbackAdvisor()])
        await run(made, "Approve TR2", context={"operator": operator})
        return model.requests[-1].tool_results[0]

    denied = await ask("bob")
    assert denied.failure is not None and denied.failure["kind"] == "denied"
    assert "permission to approve TR2" in denied.content and approved == []
    assert (await ask("eva")).content == "TR2 approved"
    assert (await ask("eva")).content == "TR2 is approved already."


async def test_a_degraded_result_is_never_returned_directly(run: Any) -> None:
    model = ScriptedModel([ToolCall("get_budget"), "Sorry, no budget."])
    made = ChatClient(model, tools=[budget("MCP error -32603", return_direct=True)], advisors=[ToolFallbackAdvisor()])
    response = await run(made, "Budget?")
    assert response.text == "Sorry, no budget."
    assert "its result is an error" in response.metadata["return_direct"]


# Set up --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"language": "xx"}, "'xx'.*en, zh"),
        ({"templates": {"en": {"degraded": "{tool} rests"}}}, "degraded.*title"),
        ({"templates": {"en": {"degraded": "{title"}}}, "degraded"),
        ({"templates": {"en": {"degradet": "x"}}}, "degraded"),
        ({"templates": {"en": "x"}}, "templates"),
        ({"matchers": {"crm": "BUSY"}}, "crm"),
        ({"matchers": ["crm"]}, "matchers must be a mapping"),
        ({"templates": ["en"]}, "templates must be a mapping"),
        ({"reason": "no"}, "reason must be a function"),
        ({"contact": 5}, "contact must be a text"),
        ({"failures": {}}, "failures must be a FailureTable"),
    ],
    ids=repr,
)
def test_bad_settings(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ToolFallbackAdvisor(**settings)
