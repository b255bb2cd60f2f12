"""Chains from a file: ``advisorchain.toml``, or ``[tool.advisorchain]`` in a ``pyproject.toml``.

A file is trusted like code: it names what is imported and started. It is read only when it is named. It is checked
in phases, each of which tells everything that it finds: the shape and the names, with nothing imported; the options of
what is named, with only that imported; the tools.
"""

from __future__ import annotations

from .client import ConfiguredClient
from .file import ConfigFile
from .schema import json_schema

__all__ = ["ConfigFile", "ConfiguredClient", "json_schema"]
