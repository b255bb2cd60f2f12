"""For adapters of models that have no tool calls: tools in the instructions, chosen by structured output.

The model answers with one JSON object, ``{"tool": ..., "arguments": ...}`` or ``{"answer": ...}``, which the engine
enforces by `prompted_schema`; it makes one call per answer. Calls and results of earlier rounds are sent in the same
form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic_core import from_json

from ..exchange import ChatRequest
from ..messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:
    from ..tools import Tool

_INSTRUCTION = """\
Reply with one JSON object and nothing else.
To use a tool, reply {{"tool": "the tool's name", "arguments": {{...}}}}.
To answer the user, reply {{"answer": ...}}. Answer as soon as the results of the tools suffice.
The tools:
{tools}"""


class Reading(NamedTuple):
    """What the whole text of an answer says, when it is not simply the answer's text."""

    text: str
    calls: tuple[ToolCall, ...] = ()


def arguments_text(arguments: dict[str, Any] | str | None) -> str:
    """A call's arguments as JSON text; a text that is no JSON object is put into one, because servers parse it."""
    if arguments is None:
        return "{}"
    if isinstance(arguments, dict):
        return json.dumps(arguments, ensure_ascii=False, default=str)
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"malformed_arguments": arguments}, ensure_ascii=False)


def prompted_messages(request: ChatRequest, *, offered: bool = True) -> list[Message]:
    """The request's messages with the tools described, and with calls and results as text.

    Args:
        request: the request.
        offered: False: the tools are not described and answers are plain text; only calls and results become text.
    """
    messages = list(request.messages)
    sent: list[Message] = []
    if offered:
        described = _INSTRUCTION.format(tools="\n".join([_described(tool) for tool in request.tools]))
        if messages and isinstance(messages[0], SystemMessage):
            described = f"{messages.pop(0).text}\n\n{described}"
        sent.append(SystemMessage(content=described))
    for message in messages:
        if isinstance(message, AssistantMessage):
            lines = [_call_text(call) for call in message.tool_calls if call.executed_by == "client"]
            answer = json.dumps({"answer": message.text}, ensure_ascii=False) if offered else message.text
            sent.append(AssistantMessage(content="\n".join(lines) or answer))
        elif isinstance(message, ToolMessage):
            head = f"{'Error' if message.is_error else 'Result'} of the tool {message.name}: "
            parts = message.content
            sent.append(UserMessage(content=head + parts if isinstance(parts, str) else (TextPart(text=head), *parts)))
        else:
            sent.append(message)
    return sent


def prompted_schema(request: ChatRequest, choice: str | None) -> dict[str, Any]:
    """The JSON schema that allows a call of one of the tools, or an answer, as ``tool_choice`` says."""
    definitions: dict[str, Any] = {}
    forms: list[dict[str, Any]] = []
    if choice != "none":
        for tool in request.tools:
            if choice in (None, "auto", "required", tool.name):
                arguments = _with_own_definitions(tool.input_schema, tool.name, definitions)
                forms.append(_form(tool={"const": tool.name}, arguments=arguments))
    if choice in (None, "auto", "none"):
        output = request.output
        value = {"type": "string"} if output is None or output.type is str else output.schema
        forms.append(_form(answer=_with_own_definitions(value, "answer", definitions)))
    schema: dict[str, Any] = {"anyOf": forms} if len(forms) > 1 else forms[0]
    if definitions:
        schema["$defs"] = definitions
    return schema


def read_prompted(text: str) -> Reading:
    """The call or the answer in the model's JSON object, also when it was cut; any other text is the answer itself."""
    is_whole = True
    try:
        value: Any = from_json(text)
    except ValueError:
        try:
            value = from_json(text, allow_partial="trailing-strings")
            is_whole = False
        except ValueError:
            return Reading(text)
    if not isinstance(value, dict):
        return Reading(text)
    found = cast("dict[str, Any]", value)
    if isinstance(found.get("tool"), str) and "arguments" in found:
        arguments = found["arguments"]
        if not is_whole:
            arguments = text  # the loop must not run a call with half of its arguments
        elif not isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        return Reading("", (ToolCall(found["tool"], cast("dict[str, Any] | str", arguments)),))
    if set(found) == {"answer"}:
        answer = found["answer"]
        return Reading(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
    return Reading(text)


def _described(tool: Tool) -> str:
    fields = cast("Mapping[str, Any]", tool.input_schema.get("properties", {}))
    return f"- {tool.name}: {tool.description} Its arguments: {json.dumps(fields, ensure_ascii=False)}"


def _call_text(call: ToolCall) -> str:
    return f'{{"tool": {json.dumps(call.name)}, "arguments": {arguments_text(call.arguments)}}}'


def _form(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _with_own_definitions(schema: Mapping[str, Any], owner: str, definitions: dict[str, Any]) -> Any:
    """The schema with its ``$defs`` moved to the common ones, under names of its owner.

    A schema with references to other places in itself becomes one of these definitions as a whole.
    """
    prefix = "#/$defs/"
    refers_to_itself = False

    def moved_reference(reference: str) -> str:
        nonlocal refers_to_itself
        if reference.startswith(prefix):
            return f"{prefix}{owner}.{reference.removeprefix(prefix)}"
        if reference == "#" or reference.startswith("#/"):
            refers_to_itself = True
            return f"{prefix}{owner}{reference[1:]}"
        return reference

    def moved(node: Any) -> Any:
        if isinstance(node, Mapping):
            mapping = cast("Mapping[str, Any]", node)
            return {
                key: moved_reference(value) if key == "$ref" and isinstance(value, str) else moved(value)
                for key, value in mapping.items()
                if key != "$defs"
            }
        if isinstance(node, list | tuple):
            return [moved(item) for item in cast("Iterable[Any]", node)]
        return node

    for name, definition in cast("Mapping[str, Any]", schema.get("$defs", {})).items():
        definitions[f"{owner}.{name}"] = moved(definition)
    whole = moved(schema)
    if refers_to_itself:
        definitions[owner] = whole
        return {"$ref": f"{prefix}{owner}"}
    return whole
