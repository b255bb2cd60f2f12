"""The check is a script, so its modules import each other by plain name; the tests do the same."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
