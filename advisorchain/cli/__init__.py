"""The command line program ``advisorchain``; it needs the extra ``cli`` (typer and rich)."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Run the program; without typer and rich, say how to install them and leave with code 2."""
    missing = [name for name in ("rich", "typer") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f'The advisorchain command needs {" and ".join(missing)}: pip install "advisorchain[cli]"',
            file=sys.stderr,
        )
        raise SystemExit(2)
    from .app import run_app

    run_app()
