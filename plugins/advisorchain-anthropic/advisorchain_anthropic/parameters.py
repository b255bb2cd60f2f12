"""A request's body beside its messages: options and tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from advisorchain import ChatOptions, ChatRequest, ConfigurationError, Tool

SAMPLING_OPTIONS = ("temperature", "top_p")
"""Options that Anthropic's own API refuses since its version 2026-10-21, and that other servers take."""

UNKNOWN_OPTIONS = ("seed", "frequency_penalty", "presence_penalty")
"""Options that the Messages API does not know."""


def option_parameters(options: ChatOptions, *, max_tokens: int, sampling: bool) -> dict[str, Any]:
    """The options that do not depend on the request's tools; `ChatOptions.extra` goes into the body as it is.

    Args:
        options: what the call, the client and the model say together.
        max_tokens: the limit of an answer when the options have none; the provider wants one.
        sampling: whether `SAMPLING_OPTIONS` are sent.
    """
    parameters: dict[str, Any] = {"max_tokens": max_tokens if options.max_tokens is None else options.max_tokens}
    if options.stop:
        parameters["stop_sequences"] = list(options.stop)
    if options.reasoning_effort is not None:
        parameters["output_config"] = {"effort": options.reasoning_effort}
    more: dict[str, Any] = {}  # laid over the whole body: what the SDK has no parameter for
    if sampling:
        more |= {name: value for name in SAMPLING_OPTIONS if (value := getattr(options, name)) is not None}
    more |= options.extra  # what is named here wins
    if more:
        parameters["extra_body"] = more
    return parameters


def tool_parameters(
    request: ChatRequest,
    options: ChatOptions,
    *,
    server_tools: Iterable[Mapping[str, Any]] = (),
    called: Iterable[str] = (),
) -> dict[str, Any]:
    """``tools`` and ``tool_choice``.

    Args:
        request: has the tools.
        options: has ``tool_choice`` and ``parallel_tool_calls``.
        server_tools: tools that the provider runs itself, as they are sent.
        called: the tools that the conversation calls. The provider refuses such a conversation without tools, so
            when the request offers none, these are named, and calling them is forbidden.

    Raises:
        ConfigurationError: ``tool_choice`` asks for a tool that the request does not offer.
    """
    own = [dict(tool) for tool in server_tools]
    tools = [_tool(tool) for tool in request.tools] + own
    names = [*request.tools.names, *[str(tool.get("name")) for tool in own]]
    choice = options.tool_choice
    if choice not in (None, "auto", "none", "required") and choice not in names:
        raise ConfigurationError(
            f"tool_choice={choice!r} names no tool of this request; it has {names}, and 'auto', 'none' "
            "and 'required' are the other choices."
        )
    if not tools:
        gone = [_gone(name) for name in dict.fromkeys(called)]
        return {"tools": gone, "tool_choice": {"type": "none"}} if gone else {}
    parameters: dict[str, Any] = {"tools": tools}
    sent = _choice(choice)
    if options.parallel_tool_calls is False and choice != "none":
        sent = {**(sent or {"type": "auto"}), "disable_parallel_tool_use": True}
    if sent is not None:
        parameters["tool_choice"] = sent
    return parameters


def _choice(choice: str | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    if choice in ("auto", "none"):
        return {"type": choice}
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}


def _tool(tool: Tool) -> dict[str, Any]:
    sent: dict[str, Any] = {"name": tool.name, "input_schema": dict(tool.input_schema)}
    if tool.description:
        sent["description"] = tool.description
    return sent


def _gone(name: str) -> dict[str, Any]:
    return {"name": name, "description": "No longer there.", "input_schema": {"type": "object", "properties": {}}}
