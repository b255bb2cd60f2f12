"""Augmentation: extra arguments for all tools of a request, which the application gets and the tools do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from ..advisor import Advisor
from ..async_callable import passes_on
from ..errors import ToolArgumentsError
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..invocation import ToolInvocation, ToolResult
from ..order import Order
from ..setting_checks import checked_names
from ..tool_set import ToolSet
from ..tools.augment import Augmentation, AugmentedTool, AugmentedTools, Consumer
from ..tools.definition import Tool

M = TypeVar("M", bound=BaseModel)

Selection = Iterable[str] | Callable[[Tool], bool]


class AugmentationAdvisor(Advisor, Generic[M]):
    """Adds a model's fields to what every tool asks of the chat model, and hands them to a consumer.

    It does what `augment` does, for whatever tools a request has, and once per call: outside cache and retry, which see
    the call without the extra arguments.

    Args:
        model: a pydantic model: the extra arguments, for example a reason or a confidence.
        consumer: ``consumer(call)``, sync or async, gets an `AugmentedCall`: ``tool``, ``call``, ``request``, and
            ``arguments``, an instance of the model. It is awaited before the tool runs; an error that it raises becomes
            the result of the call, and the tool does not run.
        keep: the extra arguments reach the tools, too; they must take arguments that their schemas do not name.
        required: a call without valid extra arguments gets an error result. Default: it runs, and the consumer is not
            asked.
        tools: which tools: names and tags, or a function of the tool. Default: all, the search tool included.

    Raises:
        ConfigurationError: an argument is wrong; in a call: a tool has an argument of that name already.
    """

    order: int = Order.AUGMENTATION

    def __init__(
        self,
        model: type[M],
        consumer: Consumer[M] | None = None,
        *,
        keep: bool = False,
        required: bool = False,
        tools: Selection | None = None,
        order: int = Order.AUGMENTATION,
        name: str | None = None,
    ) -> None:
        self._augmented = AugmentedTools(Augmentation(model, consumer, keep=keep, required=required))
        self._selects = _selector(tools)
        self._known: WeakKeyDictionary[ToolSet, ToolSet] = WeakKeyDictionary()
        self.order = order
        if name is not None:
            self.name = name

    @passes_on
    def advise(self, request: ChatRequest, call_next: ChatNext) -> CoroutineType[Any, Any, ChatResponse[Any]]:
        """Add the extra arguments to the tools' schemas."""
        tools = request.tools
        if len(tools):
            new = self._known.get(tools)
            if new is None:
                selects, of = self._selects, self._augmented.of
                new = self._known[tools] = ToolSet([of(tool) if selects(tool) else tool for tool in tools])
            request = request.replace(tools=new)
        return call_next(request)  # type: ignore[return-value]  # an awaitable is enough; mypy has no CoroutineType

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Hand the extra arguments over, and make the call without them.

        Raises:
            ToolArgumentsError: they are invalid, and required.
        """
        tool, call = invocation.tool, invocation.call
        asked = True
        augmentation = self._augmented.augmentation
        if isinstance(tool, AugmentedTool) and tool.augmentation is augmentation:
            tool = tool.plain
        elif tool.source == "unknown" or not self._selects(tool):
            return await call_next(invocation)
        elif not augmentation.names.isdisjoint(tool.input_schema.get("properties") or ()):
            return await call_next(invocation)  # never offered with the extra arguments: those names are its own
        else:  # never offered, but runs all the same: the model may still have sent what all others take
            asked = tool.name in invocation.request.tools  # not one that an advisor further inside has added
        try:
            extra = augmentation.typed(tool.name, call.arguments)
        except ToolArgumentsError:
            if asked:
                raise
            extra = None
        if extra is not None:
            await augmentation.deliver(tool, invocation, extra)
        stripped = call.replace(arguments=augmentation.split(call.arguments)[0])
        return await call_next(invocation.replace(call=stripped, tool=tool))


def _selector(tools: Selection | None) -> Callable[[Tool], bool]:
    if tools is None:
        return lambda tool: True
    if callable(tools):
        return tools
    names = frozenset(checked_names("tools", tools, "a list of names and tags, or a function of the tool"))
    return lambda tool: tool.policy_name in names or not names.isdisjoint(tool.tags)
