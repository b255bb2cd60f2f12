"""The version of the package: in a module of its own, so that every floor may ask for it."""

from __future__ import annotations

__version__ = "0.1.0"
