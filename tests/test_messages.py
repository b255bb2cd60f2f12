"""Messages and parts: frozen, lossless through JSON whatever they hold, and paired."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from advisorchain import (
    AssistantMessage,
    AudioPart,
    ChatClient,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    TranscriptError,
    UnknownMessage,
    UnknownPart,
    Usage,
    UserMessage,
    dump_messages,
    load_messages,
)
from advisorchain.messages import check_pairing, text_of
from advisorchain.testing import ScriptedModel

texts = st.text(max_size=30)
names = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
ids = names.map("id_".__add__)

media = {"media_type": st.none() | names}
sources = st.fixed_dictionaries({"data": st.binary(max_size=40)}) | st.fixed_dictionaries({"url": texts})


def media_parts(kind: Any, **more: Any) -> st.SearchStrategy[Any]:
    return st.builds(lambda source, rest: kind(**source, **rest), sources, st.fixed_dictionaries({**media, **more}))


unknown_names = names.map("x_".__add__)
parts = st.one_of(
    st.builds(TextPart, text=texts),
    media_parts(ImagePart),
    media_parts(AudioPart),
    media_parts(FilePart, name=st.none() | texts),
    st.builds(ReasoningPart, text=texts, signature=st.none() | texts),
    st.builds(ProviderPart, provider=names, type=names, data=json_values),
    st.builds(lambda kind, fields: UnknownPart(**{**fields, "kind": kind}), unknown_names, json_objects),
)
contents = texts | st.lists(parts, max_size=4).map(tuple)
calls = st.builds(
    ToolCall,
    name=texts,
    arguments=st.none() | json_objects | texts,
    id=ids,
    executed_by=st.sampled_from(["client", "provider"]),
    metadata=st.none() | json_objects,
)
common: dict[str, Any] = {"content": contents, "id": ids, "metadata": st.none() | json_objects}
messages = st.one_of(
    st.builds(SystemMessage, **common),
    st.builds(UserMessage, **common),
    st.builds(AssistantMessage, **common, tool_calls=st.lists(calls, max_size=3).map(tuple)),
    st.builds(
        ToolMessage,
        **common,
        call_id=ids,
        name=texts,
        is_error=st.booleans(),
        source=names,
        trusted=st.booleans(),
    ),
    st.builds(lambda role, id, fields: UnknownMessage(**{**fields, "role": role, "id": id}), unknown_names, ids,
              json_objects.map(lambda fields: {key: value for key, value in fields.items() if key != "text"})),
)  # fmt: skip


@given(st.lists(messages, max_size=4))
def test_nothing_is_lost_on_a_round_trip(conversation: list[Any]) -> None:
    text = dump_messages(conversation)
    loaded = load_messages(text)
    assert loaded == tuple(conversation)
    assert [type(message) for message in loaded] == [type(message) for message in conversation]
    assert dump_messages(loaded) == text
    assert load_messages(text.encode()) == loaded


def test_half_a_character_becomes_a_question_mark() -> None:
    """Browsers and models that cut a text in the middle of an emoji send them; UTF-8 has not."""
    data = {"\ud83d": ["\ude42", {"n": float("inf")}]}
    parts = (
        TextPart(text="fine 🙂 cut \ud83d"),
        ProviderPart(provider="p", type="t", data=data),
        ImagePart(data=b"\xff"),
    )
    calls = (ToolCall("look", {"q": "\ud83d"}, "c1"), ToolCall("look", '{"q": "\ud83d', "c2"))
    conversation = [
        UserMessage(content=parts),
        AssistantMessage(tool_calls=calls),
        UnknownMessage.model_validate({"role": "observer", "content": "\ud83d", "more": 1}),
    ]
    user, assistant, unknown = loaded = load_messages(dump_messages(conversation))
    data = {"?": ["?", {"n": float("inf")}]}
    parts = (TextPart(text="fine 🙂 cut ?"), ProviderPart(provider="p", type="t", data=data), ImagePart(data=b"\xff"))
    assert user == UserMessage(content=parts, id=user.id)
    assert isinstance(assistant, AssistantMessage)
    assert [call.arguments for call in assistant.tool_calls] == [{"q": "?"}, '{"q": "?']
    assert unknown == UnknownMessage.model_validate({"role": "observer", "content": "?", "more": 1})
    assert [type(message) for message in loaded] == [type(message) for message in conversation]
    with pytest.raises(PydanticSerializationError, match="object"):
        dump_messages([UserMessage(content="\ud83d", metadata={"x": object()})])


@given(unknown_names, json_objects)
def test_a_role_of_a_later_version_keeps_every_field(role: str, fields: dict[str, Any]) -> None:
    """Whatever another version wrote: its fields may be called as ours and hold something else."""
    written = {**fields, "role": role, "id": "m1"}
    (loaded,) = load_messages(json.dumps([written]))
    assert type(loaded) is UnknownMessage
    back = json.loads(dump_messages([loaded]))[0]
    assert {key: back[key] for key in written} == written


@pytest.mark.parametrize("text", [None, 5, {"value": "hi"}, ["a"]])
def test_a_role_of_a_later_version_may_have_any_text(text: Any) -> None:
    written = {"role": "developer", "id": "m1", "text": text}
    (loaded,) = load_messages(json.dumps([written]))
    assert json.loads(dump_messages([loaded])) == [written]


@given(unknown_names, json_objects)
def test_a_part_of_a_later_version_keeps_every_field(kind: str, fields: dict[str, Any]) -> None:
    written = {**fields, "kind": kind}
    message = {"role": "user", "id": "m1", "content": [{"kind": "text", "text": "a"}, written], "metadata": None}
    (loaded,) = load_messages(json.dumps([message]))
    assert isinstance(loaded, UserMessage) and loaded.text == "a" and type(loaded.content[1]) is UnknownPart
    assert json.loads(dump_messages([loaded])) == [message]


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_numbers_survive(value: float) -> None:
    """A tool result's score, say: Python's JSON has them."""
    message = UserMessage(content="a", metadata={"score": value})
    assert load_messages(dump_messages([message])) == (message,)


@given(parts)
def test_text_of_parts(part: Any) -> None:
    expected = part.text if isinstance(part, TextPart) else ""
    assert UserMessage(content=(part,)).text == text_of((part,)) == expected


@given(messages)
def test_messages_are_frozen_and_equal_by_value(message: Any) -> None:
    for attribute in ("role", "id", "content"):
        with pytest.raises(ValidationError):
            setattr(message, attribute, "changed")
    assert message.model_copy() == message


def test_parts_and_calls_are_frozen() -> None:
    with pytest.raises(ValidationError):
        TextPart(text="a").text = "b"
    with pytest.raises(AttributeError):
        ToolCall("a").name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Usage(1).input_tokens = 2  # type: ignore[misc]


@pytest.mark.parametrize("kind", [ImagePart, AudioPart, FilePart])
@pytest.mark.parametrize("fields", [{}, {"data": b"x", "url": "https://example.com/x"}])
def test_media_has_data_or_an_address(kind: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"data.*url"):
        kind(**fields)


def test_ids_are_made_and_differ() -> None:
    assert len({UserMessage(content="a").id for _ in range(1000)}) == 1000
    assert len({ToolCall("a").id for _ in range(1000)}) == 1000
    assert ToolCall("a", id="").id and ToolCall("a", id="c1").id == "c1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_after_a_fork_two_processes_never_make_one_id() -> None:
    script = """
        import os
        from advisorchain import ToolCall, UserMessage
        def ids():
            return {each for _ in range(500) for each in (UserMessage(content="a").id, ToolCall("a").id)}
        ids()
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, "\\n".join(ids()).encode())
            os._exit(0)
        os.close(write)
        own = ids()
        theirs = set(os.fdopen(read).read().split())
        assert len(own) == len(theirs) == 1000
        print(len(own & theirs))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=30, check=True
    )
    assert found.stdout.strip() == "0"


def test_a_wrong_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="conten"):
        UserMessage(conten="typo", content="a")  # type: ignore[call-arg]


@given(
    st.builds(Usage, *[st.none() | st.integers(0, 10**6)] * 5), st.builds(Usage, *[st.none() | st.integers(0, 9)] * 5)
)
def test_usage_adds_and_keeps_what_is_missing(one: Usage, two: Usage) -> None:
    total = one + two
    for field in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"):
        known = [value for value in (getattr(one, field), getattr(two, field)) if value is not None]
        assert getattr(total, field) == (sum(known) if known else None)
    assert one + two == two + one and one + Usage() == one


# Pairing -------------------------------------------------------------------------------------------------------------


@st.composite
def conversations(draw: Any) -> list[Any]:
    """Valid conversations: each round of calls is answered at once, in any order; ids may come back later."""
    found: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        found.append(UserMessage(content=draw(texts)))
        made = draw(st.lists(calls, max_size=4, unique_by=lambda call: call.id))
        found.append(AssistantMessage(content=draw(texts), tool_calls=tuple(made)))
        answered = draw(st.permutations([call for call in made if call.executed_by == "client"]))
        found.extend(ToolMessage(content="r", call_id=call.id, name=call.name) for call in answered)
    return found


def call_ids(conversation: list[Any]) -> set[str]:
    made = [call for message in conversation for call in getattr(message, "tool_calls", ())]
    return {call.id for call in made if call.executed_by == "client"}


@given(conversations())
def test_valid_conversations_are_paired(conversation: list[Any]) -> None:
    assert check_pairing(conversation) == call_ids(conversation)


@given(conversations(), st.data())
def test_a_lost_result_is_found(conversation: list[Any], data: st.DataObject) -> None:
    results = [index for index, message in enumerate(conversation) if isinstance(message, ToolMessage)]
    if not results:
        return
    index = data.draw(st.sampled_from(results))
    lost = conversation[index]
    with pytest.raises(TranscriptError) as caught:
        check_pairing(conversation[:index] + conversation[index + 1 :])
    assert repr(lost.call_id) in str(caught.value)


@given(conversations(), st.data())
def test_a_doubled_result_is_found(conversation: list[Any], data: st.DataObject) -> None:
    results = [index for index, message in enumerate(conversation) if isinstance(message, ToolMessage)]
    if not results:
        return
    index = data.draw(st.sampled_from(results))
    with pytest.raises(TranscriptError) as caught:
        check_pairing([*conversation[: index + 1], conversation[index], *conversation[index + 1 :]])
    assert repr(conversation[index].call_id) in str(caught.value)


@given(conversations(), st.data())
def test_nobody_speaks_between_a_call_and_its_result(conversation: list[Any], data: st.DataObject) -> None:
    results = [index for index, message in enumerate(conversation) if isinstance(message, ToolMessage)]
    if not results:
        return
    index = data.draw(st.sampled_from(results))
    with pytest.raises(TranscriptError):
        check_pairing([*conversation[:index], UserMessage(content="?"), *conversation[index:]])


def test_two_calls_of_one_id_in_one_message_are_refused() -> None:
    """One result could not answer both."""
    twin = ToolCall("a", {}, id="c1")
    result = ToolMessage(content="r", call_id="c1", name="a")
    for results in ([result], [result, result.model_copy(update={"id": "other"})]):
        with pytest.raises(TranscriptError, match="'c1'"):
            check_pairing([AssistantMessage(tool_calls=(twin, twin)), *results])


async def test_a_broken_conversation_never_reaches_the_model(run: Any) -> None:
    model = ScriptedModel([])
    open_call = [UserMessage(content="?"), AssistantMessage(tool_calls=(ToolCall("a", {}, id="c1"),))]
    with pytest.raises(TranscriptError, match="'c1'"):
        await run(ChatClient(model), [*open_call, UserMessage(content="well?")])
    with pytest.raises(TranscriptError, match="'c2'"):
        await run(ChatClient(model), [ToolMessage(content="r", call_id="c2", name="a")])
    assert model.requests == []
