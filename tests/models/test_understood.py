"""What servers say, in any form."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ModelError
from advisorchain.models.http.understood import token_count, understood


@pytest.mark.parametrize(
    ("said", "count"),
    [(0, 0), (7, 7), (7.0, 7), (None, None), (7.5, None), (-1, None), (True, None), ("7", None), ([7], None),
     ({}, None), (float("nan"), None), (float("inf"), None)],
)  # fmt: skip
def test_token_counts(said: Any, count: int | None) -> None:
    found = token_count(said)
    assert found == count and type(found) is type(count)


def test_what_cannot_be_read_is_a_failed_call() -> None:
    assert understood("acme", int, "7") == 7
    with pytest.raises(ModelError, match="acme: the answer has not the form that it should have") as caught:
        understood("acme", lambda said: said["choices"].get("text"), {"choices": []})
    assert caught.value.transient and caught.value.provider == "acme"
    assert isinstance(caught.value.__cause__, AttributeError)
