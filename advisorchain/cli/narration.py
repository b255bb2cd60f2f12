"""How the demos print: headings, labelled lines, and tables that become lists on a narrow terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .display import Flow, packed, print_wrapped

INDENT = 3
NARROW = 72
"""Below this many columns, tables become lists."""


class Narration:
    """Prints in sections.

    Args:
        console: where to print.
        labels: of labelled lines, which begin in one column.
    """

    def __init__(self, console: Console, labels: Iterable[str]) -> None:
        self.console = console
        self._width = max(map(cell_len, labels))

    def title(self, text: str) -> None:
        """Begin."""
        self._print_trimmed(Text(text, style="bold"))

    def heading(self, text: str) -> None:
        """Begin a section."""
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def tell(self, text: str, hanging: int = 0) -> None:
        """Print a text of the section."""
        print_wrapped(self.console, text, INDENT, hanging)

    def label(self, label: str, mark: str = "", style: str = "") -> Flow:
        """Write a label and a coloured mark, and give what writes beside them."""
        gap = " " * (self._width - cell_len(label) + 2)
        self.console.print(Text(" " * INDENT + label + gap, style="dim"), end="")
        return self._marked(INDENT + self._width + 2, mark, style)

    def say(self, label: str, text: str, mark: str = "", style: str = "") -> None:
        """Print a labelled text."""
        flow = self.label(label, mark, style)
        flow.write(text)
        flow.end_line()

    def state(self, text: str, mark: str, style: str, further: int = 0) -> None:
        """Print a text behind a coloured mark, ``further`` columns in."""
        self.console.print(" " * (INDENT + further), end="")
        flow = self._marked(INDENT + further, mark, style)
        flow.write(text)
        flow.end_line()

    def _marked(self, indent: int, mark: str, style: str) -> Flow:
        if mark:
            self.console.print(Text(f"{mark} ", style=style), end="")
            indent += cell_len(mark) + 1
        return Flow(self.console, indent, begun=True)

    def dim(self, items: Iterable[str], indent: int) -> None:
        """Print items side by side, as many as fit."""
        text = "\n".join(packed(items, self.console.width - indent))
        self._print_trimmed(Padding(Text(text, style="dim"), (0, 0, 0, indent), expand=False))

    @property
    def is_narrow(self) -> bool:
        """Whether there is no room for a table."""
        return self.console.width < NARROW

    def table(self, names: Sequence[str], aligned: str, rows: Iterable[Sequence[str | Text]], gap: int = 2) -> None:
        """Print a table.

        Args:
            names: of the columns.
            aligned: a letter for each column: l for left, r for right, and f for left and folded when it is too long.
            rows: the cells.
            gap: columns between two columns.
        """
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim", show_edge=False)
        for name, letter in zip(names, aligned, strict=True):
            table.add_column(name, justify="right" if letter == "r" else "left", no_wrap=letter != "f", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        self._print_trimmed(Padding(table, (0, 0, 0, INDENT), expand=False))

    def _print_trimmed(self, what: RenderableType) -> None:
        """Print without the spaces that padding and folding leave at the ends of lines."""
        with self.console.capture() as captured:
            self.console.print(what)
        for line in captured.get().splitlines():
            self.console.file.write(line.rstrip() + "\n")
        self.console.file.flush()
