"""A request's body: model, messages, tools, options and output type."""

from __future__ import annotations

from typing import Any

from advisorchain import ChatOptions, ChatRequest, ConfigurationError, Tool

_SAME_NAME = (
    "temperature", "top_p", "seed", "frequency_penalty", "presence_penalty", "reasoning_effort",
)  # fmt: skip


def option_parameters(options: ChatOptions, *, max_tokens_field: str) -> dict[str, Any]:
    """The options that do not depend on the request's tools; `ChatOptions.extra` goes into the body as it is."""
    parameters = {name: value for name in _SAME_NAME if (value := getattr(options, name)) is not None}
    if options.max_tokens is not None:
        parameters[max_tokens_field] = options.max_tokens
    if options.stop:
        parameters["stop"] = list(options.stop)
    if options.extra:  # laid over the whole body: what is named here wins
        parameters["extra_body"] = dict(options.extra)
    return parameters


def tool_parameters(request: ChatRequest, options: ChatOptions) -> dict[str, Any]:
    """``tools``, ``tool_choice`` and ``parallel_tool_calls``; nothing without tools, where providers refuse them.

    Raises:
        ConfigurationError: ``tool_choice`` asks for a tool that the request does not offer.
    """
    choice = options.tool_choice
    if choice not in (None, "auto", "none", "required") and choice not in request.tools:
        raise ConfigurationError(
            f"tool_choice={choice!r} names no tool of this request; it has {request.tools.names}, and 'auto', 'none' "
            "and 'required' are the other choices."
        )
    if not len(request.tools):
        return {}
    parameters: dict[str, Any] = {"tools": [_tool(tool) for tool in request.tools]}
    if choice in ("auto", "none", "required"):
        parameters["tool_choice"] = choice
    elif choice is not None:
        parameters["tool_choice"] = {"type": "function", "function": {"name": choice}}
    if options.parallel_tool_calls is not None:
        parameters["parallel_tool_calls"] = options.parallel_tool_calls
    return parameters


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)}
    return {"type": "function", "function": function}
