"""A request's body for the Responses API, beside its input: options and tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from advisorchain import ChatOptions, ChatRequest, ConfigurationError, Tool

UNKNOWN_OPTIONS = ("stop", "seed", "frequency_penalty", "presence_penalty")
"""Options that the Responses API does not know."""

_CHOICES = ("auto", "none", "required")
_SAME_NAME = ("temperature", "top_p")
_MERGED = ("reasoning", "text")  # objects with fields of ours
_ENCRYPTED = "reasoning.encrypted_content"
_WITHOUT_REASONING = ("gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat")
_OF_THE_APPLICATION = {
    "function": "give it in tools=",
    "custom": "give a function in tools=",
    "computer": "its actions are the application's to run",
    "computer_use": "its actions are the application's to run",
    "computer_use_preview": "its actions are the application's to run",
    "local_shell": "its commands are the application's to run",
    "apply_patch": "its changes are the application's to make",
}


def reasons(model: str) -> bool:
    """Whether the model may reason, by its name: those of OpenAI that do not refuse to be asked for it encrypted."""
    name = model.removeprefix("ft:").rpartition("/")[2].lower()
    return not name.startswith(_WITHOUT_REASONING)


def option_parameters(options: ChatOptions, *, encrypted_reasoning: bool) -> dict[str, Any]:
    """The options that do not depend on the request's tools. The provider keeps nothing (``store``).

    Args:
        options: what the call, the client and the model say together.
        encrypted_reasoning: ask for reasoning in the form that can be sent back.
    """
    parameters: dict[str, Any] = {"store": False}
    if encrypted_reasoning:
        parameters["include"] = [_ENCRYPTED]
    parameters |= {name: value for name in _SAME_NAME if (value := getattr(options, name)) is not None}
    if options.max_tokens is not None:
        parameters["max_output_tokens"] = options.max_tokens
    if options.reasoning_effort is not None:
        parameters["reasoning"] = {"effort": options.reasoning_effort}
    return parameters


def lay_extra(body: dict[str, Any], extra: Mapping[str, Any]) -> None:
    """Lay `ChatOptions.extra` over the whole body: what is named there wins.

    The fields of ``reasoning`` and ``text`` are added to those of the body, and so is what is to be included.
    """
    more = dict(extra)
    for name in _MERGED:
        if isinstance(more.get(name), Mapping) and name in body:
            body[name] = {**body[name], **more.pop(name)}
    include = more.get("include")
    if isinstance(include, list | tuple):
        body["include"] = list(dict.fromkeys([*body.get("include", ()), *cast("list[Any]", more.pop("include"))]))
    if more:
        body["extra_body"] = more


def checked_server_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools that the provider runs itself.

    Raises:
        ConfigurationError: one is no such tool.
    """
    checked: list[dict[str, Any]] = []
    for tool in tools:
        if not isinstance(tool, Mapping) or not isinstance(tool.get("type"), str):
            raise ConfigurationError(
                f"server_tools= takes tools as the API wants them, for example {{'type': 'web_search'}}, not {tool!r}."
            )
        kind: str = tool["type"]
        reason = _OF_THE_APPLICATION.get(kind)
        if kind == "shell" and (tool.get("environment") or {"type": "local"}).get("type") == "local":
            reason = "without a container its commands are the application's to run"
        if kind == "tool_search" and tool.get("execution") == "client":
            reason = "its searches are the application's to run"
        if reason:
            raise ConfigurationError(
                f"server_tools= takes what the provider runs itself, and {kind!r} is not: {reason}."
            )
        checked.append(dict(tool))
    return checked


def tool_parameters(
    request: ChatRequest,
    options: ChatOptions,
    *,
    server_tools: list[dict[str, Any]],
    schema: Callable[[Tool], dict[str, Any]],
) -> dict[str, Any]:
    """``tools``, ``tool_choice`` and ``parallel_tool_calls``; nothing without tools, where providers refuse them.

    Args:
        request: has the tools.
        options: has ``tool_choice`` and ``parallel_tool_calls``.
        server_tools: tools that the provider runs itself, as they are sent.
        schema: gives the schema of a tool's arguments.

    Raises:
        ConfigurationError: ``tool_choice`` asks for a tool that the request does not offer.
    """
    choices: dict[str, Any] = {name: name for name in _CHOICES}
    for tool in server_tools:
        label = {"server_label": tool["server_label"]} if "server_label" in tool else {}
        choices.setdefault(str(tool.get("server_label") or tool["type"]), {"type": tool["type"], **label})
    choices |= {name: {"type": "function", "name": name} for name in request.tools.names if name not in _CHOICES}
    choice = options.tool_choice
    if choice is not None and choice not in choices:
        names = [name for name in choices if name not in _CHOICES]
        raise ConfigurationError(
            f"tool_choice={choice!r} names no tool of this request; it has {names}, and 'auto', 'none' and 'required' "
            "are the other choices."
        )
    tools = [_tool(tool, schema(tool)) for tool in request.tools] + server_tools
    if not tools:
        return {}
    parameters: dict[str, Any] = {"tools": tools}
    if choice is not None:
        parameters["tool_choice"] = choices[choice]
    if options.parallel_tool_calls is not None:
        parameters["parallel_tool_calls"] = options.parallel_tool_calls
    return parameters


def _tool(tool: Tool, schema: dict[str, Any]) -> dict[str, Any]:
    sent: dict[str, Any] = {"type": "function", "name": tool.name, "parameters": schema}
    if tool.description:
        sent["description"] = tool.description
    # The API's own default would change which arguments are optional.
    return {**sent, "strict": False}
