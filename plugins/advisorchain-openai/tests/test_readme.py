"""The README's programs run, against the running aimock."""

from __future__ import annotations

import ast
import inspect
import re
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aimock import Aimock

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


async def test_the_readme_runs(aimock: Aimock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", aimock.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    hello = {"content": "Hello!", "usage": {"input_tokens": 3, "output_tokens": 2}}
    aimock.load([{"match": {"userMessage": "ello"}, "response": hello}])
    namespace: dict[str, Any] = {"__builtins__": __builtins__}
    for block in BLOCKS:
        code = compile(block, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            await types.FunctionType(code, namespace)()
        else:
            exec(code, namespace)
    assert namespace["response"].text == "Hello!" and len(aimock.journal()) == 2
    await namespace["client"].model.aclose()
    await namespace["thinking"].model.aclose()
