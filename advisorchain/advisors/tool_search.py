"""Tool search: of hundreds of tools the model sees a handful, and one tool that finds the others."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from types import CoroutineType
from typing import Any, Literal

from ..advisor import Advisor
from ..async_callable import passes_on
from ..context import ContextKey, Turn
from ..errors import ConfigurationError, ToolError
from ..exchange import ChatNext, ChatRequest, ChatResponse
from ..invocation import ToolResult
from ..memory.store import MemoryStore
from ..messages import Message, SystemMessage, with_paragraph
from ..order import Order
from ..setting_checks import check_number, checked_names
from ..tool_index.catalogue import Catalogue, Catalogues, found_in, indexes_for
from ..tool_index.discoveries import FOUND, Discoveries
from ..tool_index.index import ToolIndex
from ..tool_index.kept_tools import KeptTools, store_of
from ..tool_index.search_tool import NAME, SearchTool, ToolQuery, found_text
from ..tool_set import ToolSet
from ..tools.batch import offer_of
from ..tools.definition import Tool, ToolContext
from ..tools.execution import UnknownTool
from ..turn_end import TurnEnd

logger = logging.getLogger("advisorchain")

Scope = Literal["turn", "conversation"] | ContextKey[Any] | Callable[[ChatRequest], str | None]

GUIDANCE = (
    f"Only some of your tools are shown; when none of them does what you need, find the right one with {NAME} first."
)
"""Added to the system message while only some tools are shown."""
HIDDEN = f"The tool {{name!r}} was not shown to you. Find it with {NAME} first; then you know its arguments."
"""The result of a call to a tool that was not shown, with ``auto_load=False``."""
QUERY = "What the tool should do, in a few words"
PATTERN = "A regular expression that matches the tool's name or description, for example weather|forecast"
_KEPT_SETS = 64
"""How many sets of shown tools are kept for one set of tools."""
_KEPT_TURNS = 256
"""How many turns that ended with open calls can go on with what they had found."""


class ToolSearchAdvisor(Advisor):
    """Shows the model a search tool, pinned tools, and what it has found, instead of all tools.

    Up to ``threshold`` tools it does nothing. Above, one sentence in the system message says that not all tools are
    shown. What the search tool finds is appended to the tools of the following rounds, in the order of discovery and
    never reordered, so that a provider's prompt cache stays valid. Nothing depends on the message history.

    An index is built at the first search, once for all requests that have the same tools. Tenants with different tools
    never see each other's.

    Args:
        index: ``"bm25"``, ``"regex"`` (the model writes a pattern), ``"vector"`` or ``"hybrid"`` (both need the plugin
            advisorchain-vector), the name of another plugin's index; a function that gives an empty index; or an index,
            which then holds the tools of all catalogues.
        max_results: how many tools a search finds; a model may ask for fewer.
        min_share: found tools that score less than this share of the best one are left out; 0: none is.
        always: names of tools that are always shown.
        threshold: up to so many tools all are shown.
        scope: for how long a found tool is shown. ``"turn"``; ``"conversation"``: the next turn starts with it; a
            context key or a function of the request that gives a user, a tenant, ... to whose next turns it is shown.
        store: where the last two are kept; default: for conversations the store of the chain's memory, else this
            process.
        max_kept: a turn starts with at most so many tools that were found before, the latest.
        guidance: the sentence; None: none.
        auto_load: a call to a tool that exists but was not shown runs (and the tool is shown from then on). False: it
            gets an error result that tells the model to search first.
        prefetch: before the first round, search with the user's message and show so many tools: that saves the search
            in plain cases.
        max_indexes: how many catalogues' indexes are kept.

    Raises:
        ConfigurationError: an argument is wrong; in a call: there is a tool that is named like the search tool.
    """

    order: int = Order.TOOL_SEARCH
    inside = "tool_loop"

    def __init__(
        self,
        index: str | ToolIndex | Callable[[], ToolIndex] = "bm25",
        *,
        max_results: int = 8,
        min_share: float = 0.15,
        always: Iterable[str] = (),
        threshold: int = 30,
        scope: Scope = "turn",
        store: MemoryStore | None = None,
        max_kept: int = 40,
        guidance: str | None = GUIDANCE,
        auto_load: bool = True,
        prefetch: int = 0,
        max_indexes: int = 16,
        order: int = Order.TOOL_SEARCH,
        name: str | None = None,
    ) -> None:
        check_number("max_results", max_results, least=1, whole=True)
        check_number("min_share", min_share)
        if min_share > 1:
            raise ConfigurationError(f"min_share is a share, at most 1 (is {min_share!r}): over 1 no tool is found.")
        check_number("threshold", threshold, whole=True)
        check_number("max_kept", max_kept, least=1, whole=True)
        check_number("prefetch", prefetch, whole=True)
        check_number("max_indexes", max_indexes, least=1, whole=True)
        takes = 'a list of tool names, for example ["get_time"]'
        self.always = tuple(dict.fromkeys(checked_names("always", always, takes)))
        if not isinstance(scope, ContextKey) and scope not in ("turn", "conversation") and not callable(scope):
            raise ConfigurationError(
                f"scope must be 'turn', 'conversation', a ContextKey or a function of the request, not {scope!r}."
            )
        if store is not None and (isinstance(store, type) or not isinstance(store, MemoryStore)):
            raise ConfigurationError(f"store= takes a memory store, for example SqliteStore(path), not {store!r}.")
        if guidance is not None and not isinstance(guidance, str):
            raise ConfigurationError(f"guidance must be a text or None, not {guidance!r}.")
        self.max_results = max_results
        self.min_share = min_share
        self.threshold = threshold
        self.scope = scope
        self.store = store
        self.guidance = guidance
        self.auto_load = auto_load
        self.prefetch = prefetch
        self.order = order
        if name is not None:
            self.name = name
        self._query = PATTERN if index == "regex" else QUERY
        self._indexes = indexes_for(index, max_indexes)
        self._kept = KeptTools(max_kept)
        self._turns: dict[Turn, Discoveries] = {}
        self._left: OrderedDict[str, Discoveries] = OrderedDict()  # by turn id
        self._catalogues = Catalogues()
        self._alone = SystemMessage(content=guidance) if guidance is not None else None
        self._guided: tuple[SystemMessage, SystemMessage] | None = None  # the last system message, without and with it
        self._search_tools: OrderedDict[tuple[str, ...], SearchTool] = OrderedDict()  # by categories

    # The model's side ------------------------------------------------------------------------------------------------

    @passes_on
    def advise(self, request: ChatRequest, call_next: ChatNext) -> CoroutineType[Any, Any, ChatResponse[Any]]:
        """Show some of the tools, if there are many."""
        search = self._turns.get(request.context.turn)
        if search is not None:
            return self._round(search, request, call_next)  # type: ignore[return-value]  # mypy has no CoroutineType
        other = request.tools.get(NAME)
        if other is not None:
            if other.trusted:
                raise ConfigurationError(
                    f"Advisor {self.name!r} brings a tool {NAME!r}, and there is another one: {other!r}. Rename it "
                    "with tool.replace(name=...), or with McpTools(..., prefix='always') if it is a server's."
                )
            # A stranger's choice of a name must not end the turn.
            logger.warning("Advisor %r leaves out %r: its own tool is named %r.", self.name, other, NAME)
            request = request.replace(tools=[tool for tool in request.tools if tool is not other])
        if len(request.tools) <= self.threshold:
            return call_next(request)  # type: ignore[return-value]  # an awaitable is enough
        return self._begin(request, call_next)  # type: ignore[return-value]

    async def _begin(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """The first round of a turn."""
        turn = request.context.turn
        search = Discoveries(request.tools, self._catalogues.of(request.tools))
        left = self._left.get(turn.id) if turn.continues else None
        if left is not None:
            search.found.update(left.found)
        search.owner, search.store = self._owner(request)
        if search.owner is not None:
            for name in await self._kept.load(search.store, search.owner):
                if name not in self.always:
                    search.found.setdefault(name)
        if self.prefetch and left is None:
            await self._guess(search, request)
        # A concurrent call_next of the same turn may have been faster: one search for all.
        found = self._turns.setdefault(turn, search)
        if found is search:
            request.context.at_turn_end(partial(self._end, turn))
        return await self._round(found, request, call_next)

    async def _round(self, search: Discoveries, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        if request.tools is not search.tools:
            search.tools, search.catalogue = request.tools, self._catalogues.of(request.tools)
            search.shown = None
        if request.tool_results or search.pending:
            found = search.taken(request.tool_results)
            if found:
                await self._show(search, request.context.turn, found)
        choice = request.options.tool_choice
        if choice is not None and search.tools.get(choice) is not None:
            await self._show(search, request.context.turn, [choice])  # a provider refuses a name that it does not see
        shown = search.shown
        if shown is None:
            shown = search.shown = self._tools_of(search)
        alone = self._alone
        messages = request.messages if alone is None else self._with_guidance(alone, request.messages)
        sent = request.with_tools(shown, messages)
        response = await call_next(sent)
        if type(response) is ChatResponse:
            for call in response.message.tool_calls:
                if shown.get(call.name) is None:
                    await self._answer_hidden(search, sent, response)
                    break
        return response

    async def _show(self, search: Discoveries, turn: Turn, names: Iterable[str]) -> None:
        """Show tools from now on."""
        new = [name for name in dict.fromkeys(names) if name not in search.found and name not in self.always]
        if not new:
            return
        search.found.update(dict.fromkeys(new))
        search.shown = None
        if search.owner is not None:
            await self._kept.add(search.store, search.owner, turn.id, new)

    def _tools_of(self, search: Discoveries) -> ToolSet:
        """What the model sees: the same object for the same tools and discoveries."""
        known = search.catalogue.shown
        key = tuple(search.found)
        shown = known.get(key)
        if shown is None:
            names = [*self.always, *key]
            tools = [tool for name in names if (tool := search.tools.get(name)) is not None]
            shown = ToolSet([self._search_tool(search.catalogue), *tools])
            _keep(known, key, shown)
        return shown

    def _with_guidance(self, alone: SystemMessage, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages with the guidance in the system message, which is made once."""
        first = messages[0] if messages else None
        if type(first) is not SystemMessage:
            return (alone, *messages)
        guided = self._guided
        if guided is None or guided[0] is not first:
            self._guided = guided = (first, with_paragraph(first, alone.text))
        return (guided[1], *messages[1:])

    async def _answer_hidden(self, search: Discoveries, sent: ChatRequest, response: ChatResponse[Any]) -> None:
        """Let the loop run tools that were not shown, or tell the model to search first."""
        offered, options = offer_of(sent, response)
        called = dict.fromkeys(call.name for call in response.tool_calls)
        get, shown = search.tools.get, sent.tools.get
        names = [n for n in called if get(n) is not None and shown(n) is None and offered.get(n) is None]
        if self.auto_load:
            await self._show(search, sent.context.turn, names)
            added = [tool for name in names if (tool := get(name)) is not None]
        else:
            added = [UnknownTool(name, offered, HIDDEN.format(name=name)) for name in names]
        if sent.offers is not None and added:
            sent.offers[response.message.id] = (ToolSet([*offered, *added]), options)

    def _end(self, turn: Turn, end: TurnEnd) -> None:
        search = self._turns.pop(turn)
        response = end.response
        if response is not None and response.tool_calls:
            self._left[turn.id] = search  # the caller runs the calls, and goes on with the turn
            self._left.move_to_end(turn.id)
            while len(self._left) > _KEPT_TURNS:
                self._left.popitem(last=False)

    # Whose discoveries -----------------------------------------------------------------------------------------------

    def _owner(self, request: ChatRequest) -> tuple[str | None, MemoryStore | None]:
        """Whose discoveries are kept, and where; None: only in this turn."""
        scope: Any = self.scope
        if isinstance(scope, ContextKey):
            owner: Any = request.context.get(scope)
        elif scope == "turn":
            return None, None
        elif scope == "conversation":
            return request.conversation_id, self.store or store_of(request.context.turn)
        else:
            owner = scope(request)
        if owner is None or (isinstance(owner, str) and owner):
            return owner, self.store
        raise ConfigurationError(f"The scope of advisor {self.name!r} gave {owner!r}; it must be a text or None.")

    # The catalogue ---------------------------------------------------------------------------------------------------

    def _search_tool(self, catalogue: Catalogue) -> SearchTool:
        found = self._search_tools.get(catalogue.categories)
        if found is None:
            found = SearchTool(
                self._find, max_results=self.max_results, query=self._query, categories=catalogue.categories
            )
            _keep(self._search_tools, catalogue.categories, found)
        return found

    async def _guess(self, search: Discoveries, request: ChatRequest) -> None:
        """Find tools by the user's message."""
        text = request.user_text
        if not text.strip():
            return
        try:
            tools = await self._best(search, ToolQuery(text, self.prefetch, None), request.context.turn)
        except Exception:  # the model can still search
            logger.warning("Advisor %r could not search with the user's message", self.name, exc_info=True)
        else:
            search.found.update(dict.fromkeys(tool.name for tool in tools if tool.name not in self.always))

    async def _find(self, query: ToolQuery, context: ToolContext) -> ToolResult:
        """One call of the search tool."""
        turn = context.context.turn
        search = self._turns.get(turn) or self._left.get(turn.id)
        if search is None:
            raise ToolError("The tools of that turn are not known any more.")
        catalogue = search.catalogue
        known = query.category is None or catalogue.has(query.category)
        tools = await self._best(search, query if known else query._replace(category=None), turn)
        names = tuple(tool.name for tool in tools)
        if context.request.round:
            search.pending[context.call.id] = names
        else:  # no loop brings the results back
            await self._show(search, turn, names)
        return ToolResult(found_text(query, tools, catalogue.categories, known), metadata={FOUND: names})

    async def _best(self, search: Discoveries, query: ToolQuery, turn: Turn) -> list[Tool]:
        tools = search.tools
        index = await self._indexes.index_of(tools, search.catalogue.fingerprint(tools))
        searching = index.search(query.query, query.limit, found_in(tools, query.category))
        about = {"gen_ai.retrieval.top_k": query.limit}
        hits = await turn.operation("retrieval", searching, target=type(index).__name__, attributes=about)
        least = hits[0].score * self.min_share if hits else 0.0
        fitting = [hit.name for hit in hits[: query.limit] if hit.score >= least]
        return [tool for name in fitting if (tool := tools.get(name)) is not None]


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Keep one more, and only the latest `_KEPT_SETS`."""
    kept[key] = value
    while len(kept) > _KEPT_SETS:
        kept.popitem(last=False)
