"""A row of a database as text, or NOT_FOUND."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from advisorchain import tool


class Orders:
    """Looks up orders. Read-only; the number is bound, never pasted into the SQL."""

    def __init__(self, path: Path) -> None:
        self.uri = f"{path.resolve().as_uri()}?mode=ro"

    @tool(return_direct=True, read_only=True)
    def find_order(self, order_id: int) -> str:
        """Look up one order by its number."""
        # Sync tools run in threads: each call has its own connection.
        with closing(sqlite3.connect(self.uri, uri=True)) as database:
            database.row_factory = sqlite3.Row
            row = database.execute(
                "SELECT id, item, status FROM orders WHERE id = ?", (order_id,)
            ).fetchone()
        if row is None:
            return "NOT_FOUND"
        return "\n".join(f"{column}: {value}" for column, value in dict(row).items())
