"""Whether the MCP SDK is installed: advisorchain requires it, but an installation can be without what it requires."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import ConfigurationError


def require_sdk() -> None:
    """Check that it is; does not import it.

    Raises:
        ConfigurationError: it is not; says how to get it.
    """
    if find_spec("mcp") is None:
        raise ConfigurationError("MCP needs the package mcp, which is not installed: pip install advisorchain.")
