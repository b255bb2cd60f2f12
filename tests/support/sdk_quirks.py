"""What the MCP SDK does that our strict warnings object to, and that only it can mend."""

from __future__ import annotations

import pytest

UNFINISHED_STREAMS = pytest.mark.filterwarnings(
    "ignore:Async generator 'http[^']*' was garbage collected:ResourceWarning"
)
"""It leaves the generators of an HTTP answer that it has read to the garbage collector, and trio says so."""
