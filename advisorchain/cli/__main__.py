"""``python -m advisorchain.cli`` is the command ``advisorchain``."""

from __future__ import annotations

from . import main

main()
