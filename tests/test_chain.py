"""The chain as it is built: order, names, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    Advisor,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    Order,
    ToolCall,
    ToolInvocation,
    ToolNext,
    ToolResult,
    tool,
)
from advisorchain.advisors import ReturnDirectAdvisor, ToolCallingAdvisor
from advisorchain.chain import AdvisorChain
from advisorchain.testing import ScriptedModel


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Trace(Advisor):
    """Notes when it is entered and left, around exchanges and around tool calls."""

    def __init__(self, name: str, order: int, log: list[str]) -> None:
        self.name = name
        self.order = order
        self.log = log

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        self.log.append(f"{self.name}>")
        response = await call_next(request)
        self.log.append(f"<{self.name}")
        return response

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        self.log.append(f"{self.name}[")
        result = await call_next(invocation)
        self.log.append(f"]{self.name}")
        return result


class OneRoundLoop:
    """A third party's loop: no subclass, one round of tools, then one more answer."""

    name = "one_round"
    order = 450
    is_tool_loop = True

    def __init__(self) -> None:
        self.ran = 0

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        self.ran += 1
        first = await call_next(request)
        if not first.tool_calls:
            return first
        messages: list[Any] = [*first.new_messages]
        for call in first.tool_calls:
            found = request.tools.get(call.name)
            assert found is not None
            result = await request.execute(ToolInvocation(call, found, request, 1))
            messages.append(result.stamped(call.id, call.name, False, "local", True).message())
        second = await call_next(request.replace(messages=(*request.messages, *messages)))
        return second.replace(new_messages=(*messages, second.message))


async def _tool(invocation: ToolInvocation) -> ToolResult:
    raise AssertionError("not called")


def chain(*advisors: Any) -> AdvisorChain:
    return AdvisorChain(advisors, ScriptedModel([]), tool=_tool)


def names(*advisors: Any) -> list[str]:
    return [row.name for row in chain(*advisors).explain().rows]


def refused(*advisors: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        chain(*advisors)
    return str(caught.value)


# Order ---------------------------------------------------------------------------------------------------------------


async def test_ties_keep_registration_order_outside_and_inside(run: Any) -> None:
    log: list[str] = []
    advisors = [
        Trace("in2", 600, log), Trace("out2", 300, log), Trace("in1", 600, log), Trace("out1", 300, log),
        Trace("first", 0, log), Trace("last", 999, log),
    ]  # fmt: skip
    model = ScriptedModel([["thinking ", ToolCall("add", {"a": 1, "b": 2})], "3"])
    client = ChatClient(model, tools=[add], advisors=advisors)
    assert (await run(client, "1 + 2?")).text == "3"

    outside, inside = ["first", "out2", "out1"], ["in2", "in1", "last"]
    every = outside + inside
    round_trip = [f"{name}>" for name in inside] + [f"<{name}" for name in reversed(inside)]
    tool_trip = [f"{name}[" for name in every] + [f"]{name}" for name in reversed(every)]
    expected = [f"{name}>" for name in outside]
    expected += round_trip + tool_trip + round_trip
    expected += [f"<{name}" for name in reversed(outside)]
    assert log == expected


async def test_per_call_advisors_come_after_the_clients_of_the_same_order(run: Any) -> None:
    log: list[str] = []
    client = ChatClient(
        ScriptedModel(["one", "two"]), advisors=[Trace("client_in", 600, log), Trace("client_out", 300, log)]
    )
    mine = [Trace("call_in", 600, log), Trace("call_out", 300, log)]
    await run(client, "?", advisors=mine)
    assert [entry for entry in log if entry.endswith(">")] == ["client_out>", "call_out>", "client_in>", "call_in>"]

    log.clear()
    await run(client, "?")
    assert [entry for entry in log if entry.endswith(">")] == ["client_out>", "client_in>"]


async def test_per_call_advisors_may_come_from_a_generator(run: Any) -> None:
    log: list[str] = []
    client = ChatClient(ScriptedModel(["one"]))
    await run(client, "?", advisors=(Trace(name, 300, log) for name in ("a", "b")))
    assert log == ["a>", "b>", "<b", "<a"]


async def test_an_advisor_at_the_loops_own_order_stands_where_it_was_registered(run: Any) -> None:
    log: list[str] = []
    before, after = Trace("before", 500, log), Trace("after", 500, log)
    model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2})], "3"])
    client = ChatClient(model, tools=[add], advisors=[before, ToolCallingAdvisor(), after])
    await run(client, "?")
    assert log.count("before>") == 1
    assert log.count("after>") == 2


@pytest.mark.parametrize("order", [1000, 1001, -1, -1000])
def test_orders_out_of_range_are_refused(order: int) -> None:
    text = refused(Trace("odd_one", order, []))
    assert "odd_one" in text and str(order) in text and "999" in text


@pytest.mark.parametrize("order", [True, "5", 5.0, None])
def test_orders_that_are_no_ints_are_refused(order: Any) -> None:
    text = refused(Trace("odd_one", order, []))
    assert "odd_one" in text and repr(order) in text


def test_a_missing_order_is_refused() -> None:
    class NoOrder(Advisor):
        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            return await call_next(request)

    assert "'no_order'" in refused(NoOrder())


def test_the_ends_of_the_ladder_are_orders() -> None:
    assert names(Trace("b", 999, []), Trace("a", 0, []), Trace("m", Order.RETRY, [])) == ["a", "m", "b"]


# Names and instances -------------------------------------------------------------------------------------------------


class TokenBudgetAdvisor(Advisor):
    order = 300

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request)


def test_derived_names_are_counted() -> None:
    assert names(TokenBudgetAdvisor(), TokenBudgetAdvisor(), TokenBudgetAdvisor()) == [
        "token_budget", "token_budget#2", "token_budget#3",
    ]  # fmt: skip


def test_an_explicit_name_is_kept_and_the_derived_one_gives_way() -> None:
    assert names(TokenBudgetAdvisor(), Trace("token_budget", 300, [])) == ["token_budget#2", "token_budget"]


def test_a_derived_number_that_is_taken_is_skipped() -> None:
    assert names(TokenBudgetAdvisor(), Trace("token_budget#2", 300, []), TokenBudgetAdvisor()) == [
        "token_budget", "token_budget#2", "token_budget#3",
    ]  # fmt: skip


def test_two_explicit_names_alike_are_refused() -> None:
    class Other(Trace):
        pass

    text = refused(Trace("same", 300, []), Other("same", 600, []))
    assert "'same'" in text and "Trace" in text and "Other" in text


def test_a_per_call_advisor_with_a_taken_name_is_refused() -> None:
    client = ChatClient(ScriptedModel([]), advisors=[Trace("same", 300, [])])
    with pytest.raises(ConfigurationError, match="'same'"):
        client.stream("?", advisors=[Trace("same", 600, [])])


def test_the_same_instance_twice_is_refused() -> None:
    advisor = Trace("twin", 300, [])
    assert "'twin'" in refused(advisor, advisor)
    client = ChatClient(ScriptedModel([]), advisors=[advisor])
    with pytest.raises(ConfigurationError, match="'twin'"):
        client.stream("?", advisors=[advisor])


@pytest.mark.parametrize("name", ["", 5, b"x"])
def test_a_name_is_a_text(name: Any) -> None:
    assert "Trace" in refused(Trace(name, 300, []))


def test_a_class_instead_of_an_instance_is_refused() -> None:
    assert "TokenBudgetAdvisor is a class" in refused(TokenBudgetAdvisor)
    with pytest.raises(ConfigurationError, match="ToolCallingAdvisor is a class"):
        ChatClient(ScriptedModel([]), advisors=[ToolCallingAdvisor])


def test_neither_method_is_refused() -> None:
    class Idle(Advisor):
        order = 300

    class Plain:
        name, order = "plain", 300

    assert "'idle'" in refused(Idle())
    assert "'plain'" in refused(Plain())


@pytest.mark.parametrize("place", ["client", "call"])
def test_one_advisor_instead_of_a_list_is_refused(place: str) -> None:
    advisor: Any = Trace("lonely", 300, [])
    with pytest.raises(ConfigurationError, match="list"):
        if place == "client":
            ChatClient(ScriptedModel([]), advisors=advisor)
        else:
            ChatClient(ScriptedModel([])).stream("?", advisors=advisor)


# The loop ------------------------------------------------------------------------------------------------------------


def test_two_loops_are_refused() -> None:
    text = refused(ToolCallingAdvisor(name="mine"), OneRoundLoop())
    assert "'mine'" in text and "'one_round'" in text
    client = ChatClient(ScriptedModel([]), advisors=[OneRoundLoop()])
    with pytest.raises(ConfigurationError, match=r"'one_round'.*'tool_calling'"):
        client.stream("?", advisors=[ToolCallingAdvisor()])


async def test_a_third_partys_loop_replaces_the_default(run: Any) -> None:
    log: list[str] = []
    loop = OneRoundLoop()
    model = ScriptedModel([["a sum ", ToolCall("add", {"a": 1, "b": 2})], "3"])
    client = ChatClient(model, tools=[add], advisors=[Trace("inside", 460, log), loop, Trace("outside", 440, log)])
    response = await run(client, "?")
    assert (response.text, loop.ran) == ("3", 1)
    assert log.count("inside>") == 2 and log.count("outside>") == 1 and log.count("inside[") == 1
    assert "tool_calling" not in client.explain()
    found = client.chain.explain().loop
    assert found is not None and found.name == "one_round"


async def test_a_third_partys_loop_for_one_call(run: Any) -> None:
    loop = OneRoundLoop()
    model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2})], "3", [ToolCall("add", {"a": 1, "b": 2})], "3"])
    client = ChatClient(model, tools=[add])
    assert (await run(client, "?", advisors=[loop])).text == "3"
    assert loop.ran == 1
    assert (await run(client, "?")).text == "3"
    assert loop.ran == 1


def test_a_loop_without_advise_is_refused() -> None:
    class Hollow(Advisor):
        order = 500
        is_tool_loop = True

        async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
            return await call_next(invocation)

    assert "'hollow'" in refused(Hollow())


class InsideOnly(TokenBudgetAdvisor):
    inside = "tool_loop"
    order = 600


class OutsideOnly(TokenBudgetAdvisor):
    outside = "tool_loop"
    order = 300


@pytest.mark.parametrize(
    ("advisor", "wrong", "named"), [(InsideOnly, 300, "inside_only"), (OutsideOnly, 600, "outside_only")]
)
def test_the_wrong_side_of_the_loop_is_refused(advisor: type[Advisor], wrong: int, named: str) -> None:
    right, misplaced = advisor(), advisor()
    misplaced.order = wrong
    assert named in names(ToolCallingAdvisor(), right)
    text = refused(ToolCallingAdvisor(), misplaced)
    assert f"'{named}'" in text and "'tool_calling'" in text and str(wrong) in text
    assert names(misplaced) == [named], "without a loop there are no sides"


def test_the_side_is_checked_at_the_loops_own_order() -> None:
    early, late = InsideOnly(), OutsideOnly()
    early.order = late.order = 500
    assert "'inside_only'" in refused(early, ToolCallingAdvisor())
    assert "'outside_only'" in refused(ToolCallingAdvisor(), late)
    assert names(late, ToolCallingAdvisor(), early) == ["outside_only", "tool_calling", "inside_only"]


def test_return_direct_stands_inside() -> None:
    with pytest.raises(ConfigurationError, match="'return_direct'"):
        ChatClient(ScriptedModel([]), advisors=[ReturnDirectAdvisor(order=100)])
    deep = ChatClient(ScriptedModel([]), advisors=[ToolCallingAdvisor(order=999)])
    assert [row.name for row in deep.chain.explain().rows] == ["tool_calling", "return_direct"]
