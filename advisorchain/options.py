"""Options of a model call, provider-neutral, merged field by field: call over client over model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import ConfigurationError


class ChatOptions(BaseModel):
    """Options of a model call; None leaves an option to the model's own default.

    Attributes:
        model: the model's name at its provider.
        temperature: randomness, 0 to 2.
        top_p: nucleus sampling, 0 to 1.
        max_tokens: the most tokens of one answer.
        stop: texts at which the answer ends.
        seed: asks for repeatable sampling.
        frequency_penalty: -2 to 2.
        presence_penalty: -2 to 2.
        reasoning_effort: how much a reasoning model thinks; the provider's own word.
        tool_choice: ``"auto"``, ``"none"``, ``"required"``, or the name of the tool that must be called.
        parallel_tool_calls: whether the model may make several calls in one answer.
        timeout: seconds for one model call.
        extra: options of one provider, handed over as they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    model: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, gt=0)
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    reasoning_effort: str | None = None
    tool_choice: Literal["auto", "none", "required"] | str | None = None
    parallel_tool_calls: bool | None = None
    timeout: float | None = Field(default=None, gt=0)
    extra: dict[str, Any] = Field(default_factory=dict)

    def replace(self, **changes: Any) -> ChatOptions:
        """A copy with some options changed; the changes are validated."""
        return ChatOptions(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})

    def over(self, defaults: ChatOptions) -> ChatOptions:
        """These options, and the defaults' where these are silent; ``extra`` is merged key by key."""
        if self is NO_OPTIONS or self is defaults:
            return defaults
        if defaults is NO_OPTIONS:
            return self
        merged = {name: value for name, value in defaults if value is not None}
        merged.update((name, value) for name, value in self if value is not None)
        merged["extra"] = {**defaults.extra, **self.extra}
        return ChatOptions(**merged)

    @classmethod
    def of(cls, options: ChatOptions | Mapping[str, Any] | None) -> ChatOptions:
        """``ChatOptions``, a mapping of them, or None, as ``ChatOptions``.

        Raises:
            ConfigurationError: an option is unknown or has a wrong value; names it and the nearest known one.
        """
        if options is None:
            return NO_OPTIONS
        if isinstance(options, ChatOptions):
            return options
        if not isinstance(options, Mapping):
            raise ConfigurationError(f"options= takes ChatOptions or a mapping of options, not {options!r}.")
        try:
            return cls(**options)
        except ValidationError as exc:
            problems = []
            for error in exc.errors(include_url=False, include_input=False):
                name = ".".join(map(str, error["loc"]))
                if error["type"] == "extra_forbidden":
                    import difflib

                    near = difflib.get_close_matches(name, cls.model_fields, 1, cutoff=0.75)
                    hint = f"did you mean {near[0]!r}? " if near else ""
                    hint += "an option of one provider goes into extra={...}"
                    problems.append(f"{name}: unknown option; {hint}")
                else:
                    problems.append(f"{name}: {error['msg']}")
            raise ConfigurationError("Invalid options: " + "; ".join(problems)) from None


NO_OPTIONS = ChatOptions.model_construct()
"""Options that say nothing."""
