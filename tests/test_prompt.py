"""The system text of a call: placeholders are filled, and nothing else is read as a template."""

from __future__ import annotations

from typing import Any

from advisorchain import ChatClient
from advisorchain.testing import ScriptedModel


async def test_only_identifiers_of_the_system_text_are_filled(run: Any) -> None:
    model = ScriptedModel(["a"])
    client = ChatClient(model, system='{mood}: {"name": 1} {} {0} {mood.x} {mood!r} {{mood}} %s $mood')
    await run(client, 'I say {mood} {"x"}', variables={"mood": "{mood} {other}"})
    system, user = model.requests[0].messages
    filled = "{mood} {other}"
    assert system.text == f'{filled}: {{"name": 1}} {{}} {{0}} {{mood.x}} {{mood!r}} {{{filled}}} %s $mood'
    assert user.text == 'I say {mood} {"x"}'


async def test_without_variables_nothing_is_filled(run: Any) -> None:
    model = ScriptedModel(["a"])
    await run(ChatClient(model, system='Answer as {"mood": ...} or {mood}.'), "Hi")
    assert model.requests[0].messages[0].text == 'Answer as {"mood": ...} or {mood}.'


async def test_a_calls_system_text_takes_the_place_of_the_clients(run: Any) -> None:
    model = ScriptedModel(["a", "b"])
    client = ChatClient(model, system="Be kind.")
    await run(client, "Hi", system="Be {mood}.", variables={"mood": "brief"})
    await run(client, "Hi")
    assert [request.messages[0].text for request in model.requests] == ["Be brief.", "Be kind."]
