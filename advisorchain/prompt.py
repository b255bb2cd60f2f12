"""What a caller may pass as a prompt and as a system text, turned into messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import ConfigurationError
from .messages import AssistantMessage, Message, SystemMessage, ToolMessage, UnknownMessage, UserMessage

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage, UnknownMessage)


class Transcript(tuple[Message, ...]):
    """Messages that know the turn they belong to, so that the next call goes on with it.

    Attributes:
        turn_id: the turn's id.
    """

    turn_id: str

    def __new__(cls, messages: Iterable[Message], turn_id: str) -> Transcript:
        """Messages of the turn ``turn_id``."""
        transcript = super().__new__(cls, messages)
        transcript.turn_id = turn_id
        return transcript


def messages_of(prompt: Any) -> tuple[tuple[Message, ...], str | None]:
    """A prompt as messages, and the id of the turn that they belong to, if they do.

    Raises:
        ConfigurationError: the prompt is neither a text, a message, nor a list; `check_pairing` looks at its items.
    """
    if isinstance(prompt, str):
        return (UserMessage(content=prompt),), None
    if isinstance(prompt, _MESSAGES):
        return (prompt,), None
    if isinstance(prompt, Sequence) and prompt and not isinstance(prompt, bytes | bytearray):
        return tuple(prompt), getattr(prompt, "turn_id", None)
    raise ConfigurationError(
        f"A prompt is a text, a message, or a non-empty list of messages, not {type(prompt).__name__} "
        f"{str(prompt)[:80]!r}."
    )


def system_message(text: str | None, variables: Mapping[str, Any] | None) -> SystemMessage:
    """The system message of a call that has its own text or its own variables.

    Raises:
        ConfigurationError: there is no text, or variables and placeholders do not match.
    """
    if text is None:
        raise ConfigurationError("variables= fills placeholders of the system text, but there is none.")
    if not isinstance(text, str):
        raise ConfigurationError(f"system= takes a text, not {text!r}.")
    if variables is not None and not isinstance(variables, Mapping):
        raise ConfigurationError(f"variables= maps placeholders to values, not {variables!r}.")
    return SystemMessage(content=text if variables is None else filled(text, variables))


def filled(text: str, variables: Mapping[str, Any]) -> str:
    """The text with its ``{identifier}`` placeholders filled; any other brace is left alone.

    Raises:
        ConfigurationError: a placeholder has no variable, or a variable no placeholder.
    """
    names = set(_PLACEHOLDER.findall(text))
    missing, unused = sorted(names - variables.keys()), sorted(variables.keys() - names)
    if missing:
        raise ConfigurationError(f"The system text's placeholders {missing} have no value in variables=.")
    if unused:
        raise ConfigurationError(f"variables= has {unused}, which the system text has no placeholder for.")
    return _PLACEHOLDER.sub(lambda match: str(variables[match[1]]), text)
