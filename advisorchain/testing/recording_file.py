"""The file of a recording: a line about the model, then a line of JSON for every exchange."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from .recorded_exchange import Json, is_exchange, load_error, load_events, load_response
from .scrubbing import Scrubber

FORMAT = 1
"""The version of the format that is written, and the only one that is read."""
_STATE = "advisorchain_recording"


class RecordingFile:
    """Writes a recording, whole and at once: a reader finds the old file or the new one, never half of one.

    Args:
        path: the file; it is replaced at the first exchange, its folder is made.
        about: the model's name, and whether it takes an output schema itself.
        scrubber: takes out what later exchanges give away as a secret.
    """

    def __init__(self, path: Path, about: Json, scrubber: Scrubber) -> None:
        self._path = path
        self._about = about
        self._scrubber = scrubber
        self._makers: dict[int, Callable[[], Json]] = {}
        self._lines: dict[int, str] = {}
        self._lock = threading.Lock()
        self._seen = _stamp(path)

    def write(self, index: int, make: Callable[[], Json]) -> None:
        """Add the exchange that began as number ``index``.

        Args:
            index: from 0.
            make: makes the exchange, without the secrets that are known by then.

        Raises:
            ConfigurationError: somebody else writes this file, or it cannot be written.
        """
        with self._lock:
            self._makers[index] = make
            self._lines.pop(index, None)
            known = -1
            while known != self._scrubber.known_secrets:  # what one exchange gives away may stand in the others
                if known >= 0:
                    self._lines.clear()
                known = self._scrubber.known_secrets
                for key, maker in self._makers.items():
                    if key not in self._lines:
                        self._lines[key] = _line(maker())
            text = _line(self._about) + "".join([self._lines[key] for key in sorted(self._lines)])
            if _stamp(self._path) != self._seen:
                raise ConfigurationError(
                    f"The recording {self._path} was changed while a RecordingModel wrote it: give every model a file "
                    "of its own."
                )
            try:
                self._replace(text)
            except OSError as error:
                raise ConfigurationError(f"The recording {self._path} cannot be written: {error.strerror}.") from error
            self._seen = _stamp(self._path)

    def _replace(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.{id(self)}")
        try:
            draft.write_text(text, encoding="utf-8", newline="\n")
            os.replace(draft, self._path)
        finally:
            draft.unlink(missing_ok=True)


def about_model(name: str, native_output: bool) -> Json:
    """The first line of a recording."""
    return {_STATE: FORMAT, "model": name, "native_output": native_output}


def read_recording(path: Path) -> tuple[Json, list[Json]]:
    """What is said about the model, and the exchanges.

    Raises:
        ConfigurationError: there is no such file, or a line of it (named) is not what `RecordingModel` writes.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(
            f"There is no recording at {path}: record it first, with RecordingModel(model, {str(path)!r})."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The recording {path} cannot be read: {error}.") from None
    lines = [_parsed(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    about = lines[0] if lines else None
    if not isinstance(about, dict) or _STATE not in about:
        raise ConfigurationError(f"{path} is no recording: its first line does not say {_STATE!r}.")
    if about[_STATE] != FORMAT:
        raise ConfigurationError(
            f"The recording {path} has the format {about[_STATE]!r}, and this version reads {FORMAT}: record it again."
        )
    for number, exchange in enumerate(lines[1:], 1):
        _check(path, number, exchange)
    return about, lines[1:]


def _check(path: Path, number: int, exchange: Any) -> None:
    try:
        if not is_exchange(exchange):
            raise ValueError("it needs a request, and a response, an error or cancelled")
        load_events(exchange.get("events", ()))
        if "response" in exchange:
            load_response(exchange["response"])
        elif "error" in exchange:
            load_error(exchange["error"])
    except Exception as error:
        raise ConfigurationError(f"Exchange {number} of the recording {path} is damaged: {error}.") from None


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"Line {number} of the recording {path} is no JSON ({error}).") from None


def _line(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as models that were cut write it
        text = json.dumps(value)
    return text + "\n"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
