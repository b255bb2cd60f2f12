"""`SearchTool`: the tool by which a model looks for other tools; made to be called carelessly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ConfigurationError, ToolError
from ..invocation import ToolResult
from ..tools.definition import Tool, ToolContext
from ..tools.schema_arguments import SchemaArguments, argument_error, parse_arguments

NAME = "tool_search"
DESCRIPTION_CHARS = 100
"""How much of a tool's description a result shows."""
LISTED_CATEGORIES = 20
"""How many categories the schema, or an error, lists."""
MAX_QUERY = 2000
"""How many characters of a query count."""


class ToolQuery(NamedTuple):
    """What a model asks for; ``limit`` is within its bounds."""

    query: str
    limit: int
    category: str | None


Find = Callable[[ToolQuery, ToolContext], Awaitable[ToolResult]]


class SearchTool(Tool):
    """Finds tools by a query, with an optional limit and, where the tools have some, an optional category.

    Args:
        find: does the search.
        max_results: the default of ``limit``, and the most that it may be.
        query: describes the query to the model.
        categories: those that there are.
    """

    _find: Find

    def __init__(self, find: Find, *, max_results: int, query: str, categories: Sequence[str] = ()) -> None:
        properties: dict[str, Any] = {
            "query": {"type": "string", "description": query},
            "limit": {"type": "integer", "description": f"At most so many tools; default {max_results}"},
        }
        if categories:
            listed = f": {', '.join(categories)}" if len(categories) <= LISTED_CATEGORIES else ""
            properties["category"] = {"type": "string", "description": f"Only tools of this category{listed}"}
        schema: Mapping[str, Any] = {"type": "object", "properties": properties, "required": ["query"]}
        self._set(input_schema=schema, _arguments=SchemaArguments(schema), _find=find, _max_results=max_results)
        super().__init__(
            name=NAME,
            title="Tool search",
            description="Find tools that are not shown. The tools found can be called from then on.",
            read_only=True,
            idempotent=True,
            open_world=False,
            origin="advisorchain.advisors.ToolSearchAdvisor",
        )

    def validate(self, arguments: dict[str, Any] | str | None) -> Any:
        """The query; a limit out of bounds is clamped, one that is no number is the default.

        Raises:
            ToolArgumentsError: the arguments are no JSON object, or have no query.
        """
        given = parse_arguments(self.name, arguments)
        query, category = given.get("query"), given.get("category")
        if not isinstance(query, str) or not query.strip():
            raise argument_error(self.name, ["query: say in a few words what the tool should do"])
        named = category.strip() if isinstance(category, str) else ""
        most: int = self._max_results  # type: ignore[attr-defined]
        return ToolQuery(query.strip()[:MAX_QUERY], _clamped(given.get("limit"), most), named or None)

    async def handle(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Search."""
        try:
            return await self._find(arguments, context)
        except ConfigurationError as error:  # the query is the model's: that must not end the turn
            raise ToolError(str(error)) from error


def _clamped(limit: Any, most: int) -> int:
    try:
        return max(1, min(int(limit), most))
    except (TypeError, ValueError, OverflowError):
        return most


def listed(tools: Iterable[Tool]) -> str:
    """Names with one-line descriptions."""
    return "\n".join(f"- {tool.name}: {_one_line(tool.description)}" for tool in tools)


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * DESCRIPTION_CHARS].split())
    return line if len(line) <= DESCRIPTION_CHARS else line[: DESCRIPTION_CHARS - 1].rstrip() + "…"


def found_text(query: ToolQuery, found: Sequence[Tool], categories: Sequence[str], known: bool) -> str:
    """What the model reads of a search; ``known`` says whether its category exists."""
    lines: list[str] = []
    if not known:
        some = ", ".join(categories[:LISTED_CATEGORIES]) + (", ..." if len(categories) > LISTED_CATEGORIES else "")
        there = f"there are: {some}" if some else "there are none"
        lines.append(f"No category {query.category!r} ({there}); searched in all tools.")
    where = f" in the category {query.category!r}" if query.category is not None and known else ""
    if found:
        what = "1 tool, which" if len(found) == 1 else f"{len(found)} tools, which"
        lines += [f"Found {what} you can call now:", listed(found)]
    else:
        lines.append(f"No tool found{where}. Search again with other words; if there is no such tool, do without it.")
    return "\n".join(lines)
