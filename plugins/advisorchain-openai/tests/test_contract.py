"""The contract of models, against the running aimock."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from advisorchain.testing import check_model
from advisorchain.testing.model import CALLS, TOOL
from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from aimock import Aimock


def unused_port() -> int:
    with contextlib.closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def test_the_model_keeps_the_contract(aimock: Aimock, api_key: str) -> None:
    words = ["apple", "plum", "quince", "cherry", "grape", *(f"fruit{number}end" for number in range(CALLS))]
    says = [{"match": {"userMessage": word}, "response": {"content": word}} for word in words]
    calls = [
        {
            "match": {"userMessage": f'with the text "{word}"', "hasToolResult": False},
            "response": {"toolCalls": [{"name": TOOL, "arguments": {"text": word}}]},
        }
        for word in ("pearanswer", "pearstreamed")
    ]
    done = [{"match": {"userMessage": "pear", "hasToolResult": True}, "response": {"content": "done"}}]
    aimock.load([*calls, *done, *says])
    port = unused_port()
    await check_model(
        lambda: OpenAIModel("gpt-4o", base_url=aimock.openai_url, api_key=api_key),
        broken=lambda: OpenAIModel("gpt-4o", base_url=f"http://127.0.0.1:{port}/v1", api_key=api_key),
        exact=True,
    )
