"""The switch that forbids the calls of real models."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from advisorchain import AssistantMessage, ChatClient, ChatResponse, ConfigurationError
from advisorchain.models import KeywordModel, check_calls_allowed
from advisorchain.models.calls_allowed import FORBID_VARIABLE
from advisorchain.testing import ScriptedModel, allow_model_calls, forbid_model_calls


class RealModel:
    """As every adapter is."""

    name = "real"

    async def __call__(self, request: Any) -> ChatResponse[Any]:
        check_calls_allowed(self)
        return ChatResponse(AssistantMessage(content="It cost money."))


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORBID_VARIABLE, raising=False)


async def test_a_real_model_is_forbidden(run: Any) -> None:
    client = ChatClient(RealModel())
    with forbid_model_calls(), pytest.raises(ConfigurationError, match=r"RealModel 'real' was called.*forbid_model"):
        await run(client, "Hi")
    assert (await run(client, "Hi")).text == "It cost money."


async def test_models_for_tests_go_on(run: Any) -> None:
    async def own(request: Any) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content="Mine."))

    with forbid_model_calls():
        for model in (ScriptedModel(["Hi."]), KeywordModel(), own):
            assert (await run(ChatClient(model), "Hi")).text


@pytest.mark.parametrize(
    ("value", "forbidden"), [("1", True), ("true", True), (" ON ", True), ("0", False), ("", False), ("no", False)]
)
async def test_the_environment(run: Any, monkeypatch: pytest.MonkeyPatch, value: str, forbidden: bool) -> None:
    monkeypatch.setenv(FORBID_VARIABLE, value)
    client = ChatClient(RealModel())
    if forbidden:
        with pytest.raises(ConfigurationError, match=FORBID_VARIABLE):
            await run(client, "Hi")
        with allow_model_calls():
            assert (await run(client, "Hi")).text
    else:
        assert (await run(client, "Hi")).text


def test_the_last_switch_counts_in_every_thread() -> None:
    def allowed() -> bool:
        found: list[bool] = []

        def ask() -> None:
            try:
                check_calls_allowed(RealModel())
            except ConfigurationError:
                found.append(False)
            else:
                found.append(True)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return found[0]

    assert allowed()
    with forbid_model_calls():
        assert not allowed()
        with allow_model_calls():
            assert allowed()
            with pytest.raises(ZeroDivisionError), forbid_model_calls():
                assert not allowed()
                raise ZeroDivisionError
            assert allowed()
        assert not allowed()
    assert allowed()


def test_blocks_may_end_in_any_order() -> None:
    first, second = forbid_model_calls(), allow_model_calls()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    check_calls_allowed(RealModel())
    second.__exit__(None, None, None)
    check_calls_allowed(RealModel())


def test_blocks_in_many_threads_leave_one_another_alone() -> None:
    interval = sys.getswitchinterval()
    allowed: list[str] = []

    def forbid_many_times() -> None:
        for _ in range(20_000):
            with forbid_model_calls():
                try:
                    check_calls_allowed(RealModel)
                except ConfigurationError:
                    continue
                allowed.append("inside")

    threads = [threading.Thread(target=forbid_many_times) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not allowed
    check_calls_allowed(RealModel)


def test_a_tool_s_sub_agent_cannot_swallow_it() -> None:
    inner = ChatClient(RealModel()).as_tool("ask", "Ask somebody.")
    from advisorchain import ToolCall

    client = ChatClient(ScriptedModel([[ToolCall("ask", {"prompt": "Hi"})], "Done."]), tools=[inner])
    with forbid_model_calls(), pytest.raises(ConfigurationError, match="RealModel"):
        client.call_sync("Hi")


def test_it_needs_nothing_of_the_test_package() -> None:
    code = (
        "import sys, advisorchain.models as m; m.check_calls_allowed(m); print('advisorchain.testing' in sys.modules)"
    )
    environment = {**os.environ, FORBID_VARIABLE: "0"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.strip() == "False"
