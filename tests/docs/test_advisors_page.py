"""The page of all advisors is what the code says, and each advisor's own page tells its order and its options."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import advisorchain.advisors
from advisorchain import Advisor, AdvisorChain, ChatClient
from advisorchain.testing import ScriptedModel

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOR_TESTS = {"clock", "sleep"}  # told in the docstrings
ROW = re.compile(r"^\| (\**)(\d+)\** \| \[\**`(\w+)`\**\]\(([\w-]+\.md)\) \| [^|]+ \| ([^|]+) \|$", re.M)

KINDS: dict[str, Any] = {
    name: kind
    for name in advisorchain.advisors.__all__
    if inspect.isclass(kind := getattr(advisorchain.advisors, name)) and issubclass(kind, Advisor)
}
ROWS = {name: (int(order), page, wraps, bool(bold)) for bold, order, name, page, wraps in ROW.findall(
    (DOCS / "advisors.md").read_text(encoding="utf-8")
)}  # fmt: skip


def wraps(kind: type[Advisor]) -> str:
    """What a chain wraps with it: the methods that the class overrides."""
    names = {"advise": "chat", "advise_tool": "tool"}
    return " + ".join(what for method, what in names.items() if getattr(kind, method) is not getattr(Advisor, method))


def test_the_table_has_all_advisors_from_the_outside_in() -> None:
    assert set(ROWS) == set(KINDS)
    assert {name: (order, what) for name, (order, _, what, _) in ROWS.items()} == {
        name: (int(kind.order), wraps(kind)) for name, kind in KINDS.items()
    }
    assert [order for order, *_ in ROWS.values()] == sorted(order for order, *_ in ROWS.values())


def test_the_ones_in_bold_are_in_every_client() -> None:
    chain: AdvisorChain = ChatClient(ScriptedModel([])).chain
    assert [name for name, row in ROWS.items() if row[3]] == [type(entry.advisor).__name__ for entry in chain.entries]


@pytest.mark.parametrize("name", KINDS)
def test_its_page_tells_order_and_options_and_runs_an_example(name: str) -> None:
    order, page, *_ = ROWS[name]
    text = (DOCS / page).read_text(encoding="utf-8")
    assert re.search(rf"\border\s+{order}\b|\({order},", text), (
        f"{page} does not say that {name} stands at order {order}"
    )
    options = set(inspect.signature(KINDS[name]).parameters) - {"order", "name"} - FOR_TESTS
    missing = sorted(option for option in options if not re.search(rf"\b{option}\b", text))
    assert not missing, f"{page} does not tell about {missing} of {name}"
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert any(name in block or "return_direct=" in block for block in blocks), f"{page} has no example"
