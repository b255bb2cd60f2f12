"""No secret gets into a recording, whole or in pieces, and a recording without it still fits."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatResponse,
    FilePart,
    ImagePart,
    ModelError,
    PartDelta,
    TextDelta,
    TextPart,
    Tool,
    ToolCall,
    UserMessage,
    tool,
)
from advisorchain.testing import RecordingModel, ReplayModel, ScriptedModel
from advisorchain.testing.scrubbing import Scrubber

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
FORMS = [
    ("sk-abcdefgh12345678", "my key is {}, ok"),
    ("sk-proj-abc_DEF-123456789", "{}"),
    ("abcdef1234567890", "Authorization: Bearer {}"),
    ("dXNlcjpwYXNz", "use basic {} please"),
    ("ghp_" + "a1B2" * 9, "token {}."),
    ("xoxb-123456789012-abcdefXYZ", "slack: {}"),
    ("AKIAIOSFODNN7EXAMPLE", "aws {}"),
    ("AIza" + "a1-_" * 9, "google {}"),
    (JWT, "jwt={}"),
    (KEY, "here:\n{}\nend"),
    ("hunter22", "postgres://user:{}@db.example/app"),
    ("s3cretvalue", "https://x.example/?api_key={}&page=2"),
    ("abcdefghijkl", "Authorization: Bearer {}\r\n"),
    ("0123456789abcdef", "curl -H 'x-api-key: {}' https://x.example"),
    ("0123456789abcdef", "{{'api-key': '{}', 'accept': '*/*'}}"),
    ("0123456789abcdef", "Authorization: token {}"),
    ("sid=abcdefgh; theme=dark", "Cookie: {}\nAccept: */*"),
    ("hunter22", "user: ann\npassword: {}\n"),
    ("p%40ss%2Fw0rd", "https://x.example/?token={}&page=2"),
    ("pa55", 'the config was {{"password": "{}", "user": "ann"}}'),
    ("se cret", "it said 'client_secret': '{}'"),
]


@pytest.mark.parametrize(("secret", "template"), FORMS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_secret_by_its_form(secret: str, template: str, size: int) -> None:
    text = template.format(secret)
    assert Scrubber().text(text) == template.format("[redacted]")
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    clean = Scrubber().pieces(pieces)
    assert len(clean) == len(pieces)
    assert "".join(clean) == template.format("[redacted]")


@pytest.mark.parametrize(
    "text",
    [
        "The password: ask Ann for it.",
        "It took 12 tokens and a task-runner.",
        "A basic idea, a bearer of news.",
        "It needs basic understanding, basic authentication, and bearer certificates.",
        "Your password: please choose one of at least 12 characters.",
        "Token: https is fine.",
        "http://localhost:8080/v1?page=2",
        "a list: [1, 2], a set {x}",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Scrubber().text(text) == text


def test_secrets_by_field_at_any_depth() -> None:
    data = {
        "user": "ann",
        "headers": [{"Authorization": "xyzzy99", "Accept": "json"}],
        "db_password": {"old": "abcd", "new": ["efgh", 123456]},
        "userToken": None,
        "note": "xyzzy99 and efgh and 123456",
        "raw": '{"pin": 4711, "city": "Oslo"}',
        "count": 4711,
    }
    assert Scrubber().data(data) == {
        "user": "ann",
        "headers": [{"Authorization": "[redacted]", "Accept": "json"}],
        "db_password": "[redacted]",
        "userToken": None,
        "note": "[redacted] and [redacted] and [redacted]",
        "raw": '{"pin": "[redacted]", "city": "Oslo"}',
        "count": "[redacted]",
    }


def test_a_schema_is_no_secret_but_its_default_is() -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string", "default": "hunter22"}}}
    clean = Scrubber().data({"input_schema": schema})
    expected = {"type": "string", "default": "[redacted]"}
    assert clean["input_schema"]["properties"] == {"password": expected}


def test_values_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-house")
    monkeypatch.setenv("VENDOR_KEY", 'with "quotes"')
    monkeypatch.setenv("SHORT_TOKEN", "abc")
    monkeypatch.setenv("HOME_TOWN", "Winterthur")
    clean = Scrubber().text('a key-of-the-house b "with \\"quotes\\"" abc Winterthur')
    assert clean == 'a [redacted] b "[redacted]" abc Winterthur'


def test_own_fields_and_patterns() -> None:
    scrubber = Scrubber(["patient"], [r"CH\d{4}", r"case (\d+)"])
    data = {"patient": "Ann Ott", "text": "CH1234 is case 77 of Ann Ott"}
    assert scrubber.data(data) == {"patient": "[redacted]", "text": "[redacted] is case [redacted] of [redacted]"}


def everything(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@tool
def login(user: str, password: str) -> str:
    """Log in."""
    return f"welcome {user}; session sk-sessionkey0001"


async def test_a_conversation_full_of_secrets(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", "correct-horse")
    path = tmp_path / "r.jsonl"

    def script() -> ScriptedModel:
        call = ToolCall("login", '{"user": "ann", "password": "hunter22"}', "c1")
        return ScriptedModel([[call], "Your key is sk-answerkey0001, and correct-horse."], chunk_size=3)

    def client(model: Any) -> ChatClient:
        return ChatClient(model, tools=[login], system="The service says correct-horse.")

    options = {"extra": {"api_key": "open-sesame"}}
    await run(client(RecordingModel(script(), path)), "My password is hunter22, log me in.", options=options)
    written = everything(path)
    for secret in ("hunter22", "correct-horse", "sk-sessionkey0001", "sk-answerkey0001", "open-sesame"):
        assert secret not in written
        joined = "".join(str(event.get("text", "")) for event in json.loads(written.splitlines()[2]).get("events", ()))
        assert secret not in joined, "nor in pieces"

    # The same conversation fits, also where the environment holds another secret.
    monkeypatch.setenv("SERVICE_PASSWORD", "something-else")
    replay = ReplayModel(path)
    other = ChatClient(replay, tools=[login], system="The service says something-else.")
    response = await run(other, "My password is hunter22, log me in.", options={"extra": {"api_key": "other"}})
    assert response.text == "Your key is [redacted], and [redacted]."
    replay.assert_finished()


async def test_a_secret_that_a_later_exchange_gives_away(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script = ScriptedModel(["It may be swordfish.", [ToolCall("login", {"user": "a", "password": "swordfish"})]])
    client = ChatClient(RecordingModel(script, path), tools=[login], tool_loop=False)
    await client.call("Guess")
    assert "swordfish" in everything(path)
    await client.call("Again")
    assert "swordfish" not in everything(path)


async def test_errors_are_scrubbed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for error in (ModelError("HTTP 401: wrong key sk-abcdefgh1234"), RuntimeError("Bearer abcdefgh1234 is old")):
        with pytest.raises(type(error)):
            await ChatClient(RecordingModel(ScriptedModel([error]), path)).call("Hi")
        assert "abcdefgh1234" not in everything(path)
        with pytest.raises(type(error), match=r"\[redacted\]"):
            await ChatClient(ReplayModel(path)).call("Hi")


async def test_a_diff_shows_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await ChatClient(RecordingModel(ScriptedModel(["A."]), path)).call("One")
    with pytest.raises(AssertionError) as caught:
        await ChatClient(ReplayModel(path)).call("Two with sk-abcdefgh1234")
    assert "Two with [redacted]" in str(caught.value) and "abcdefgh1234" not in str(caught.value)


async def test_own_patterns_when_recording_and_replaying(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await ChatClient(RecordingModel(ScriptedModel(["A."]), path, secret_patterns=[r"CH\d{4}"])).call("Case CH1234")
    assert "CH1234" not in everything(path)
    replay = ReplayModel(path, secret_patterns=[r"CH\d{4}"])
    await ChatClient(replay).call("Case CH9999")
    replay.assert_finished()


async def test_a_secret_in_the_description_of_a_tool(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    offered = Tool.from_schema("t", lambda arguments: "x", description="Uses sk-abcdefgh1234.", input_schema={})
    await ChatClient(RecordingModel(ScriptedModel(["A."]), path), tools=[offered]).call("Hi")
    assert "abcdefgh1234" not in everything(path)


@pytest.mark.parametrize("secret", ["correct-horse-42", "p@ss w/rd+1?", "schlüssel-zürich"])
def test_a_known_secret_in_other_spellings(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", secret)
    scrubber = Scrubber()
    for spelled in (secret, json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""), quote_plus(secret)):
        assert scrubber.text(f"a {spelled} b") == "a [redacted] b"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for user in ("ann", "anna", "annab"):
            encoded = encode(f"{user}:{secret} and more".encode()).decode()
            clean = scrubber.text(encoded)
            assert "[redacted]" in clean and len(clean) < len(encoded)


def test_a_secret_that_a_text_gives_away_is_taken_out_elsewhere() -> None:
    data = {"system": "Connect with password=hunter22-x and Authorization: Bearer abcdefgh-1", "note": "hunter22-x"}
    data["url"] = "postgres://ann:sw0rdfish@db/app"
    clean = Scrubber().data({**data, "query": "abcdefgh-1 or sw0rdfish"})
    assert clean["note"] == "[redacted]" and clean["query"] == "[redacted] or [redacted]"


def test_a_secret_that_is_described() -> None:
    """A field of a form has a type and a value."""
    fields = {"password": {"type": "string", "value": "hunter22"}, "token": {"type": "object", "is": {"a": "abcd1234"}}}
    text = json.dumps(Scrubber().data({"fields": fields, "note": "hunter22"}))
    assert "hunter22" not in text and "abcd1234" not in text and '"type": "string"' in text
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "A key."}}, "required": ["a"]}
    assert Scrubber().data({"input_schema": {"properties": {"credentials": schema}}}) == {
        "input_schema": {"properties": {"credentials": schema}}
    }


def noise_with_a_key_in_it() -> bytes:
    """Bytes whose base64 looks as if it held a key."""
    return base64.urlsafe_b64decode("sk-abcdefghijklmnopqrstuvwxyz0123456")


async def test_bytes_are_no_text(run: Any, tmp_path: Path) -> None:
    """A picture is compared by its digest; one in an answer comes back whole."""
    path, noise = tmp_path / "r.jsonl", noise_with_a_key_in_it()
    picture = ImagePart(data=noise * 1000, media_type="image/png")
    answer = AssistantMessage(content=(TextPart(text="Here."), picture, ImagePart(url="https://x.example/?key=1")))

    async def draws(request: Any) -> ChatResponse[Any]:
        await request.emit(TextDelta("Here."))
        for part in answer.content[1:]:
            await request.emit(PartDelta(part))
        return ChatResponse(answer)

    prompt = UserMessage(content=(TextPart(text="Draw this."), FilePart(data=noise * 1000, name="a.bin")))
    await run(ChatClient(RecordingModel(draws, path)), [prompt])
    assert len(everything(path).splitlines()[1].split('"events"')[0].split('"response"')[0]) < 1000
    replay = ReplayModel(path)
    response = await run(ChatClient(replay), [prompt])
    assert response.message.content == answer.content
    if run.mode == "stream":
        assert [event.part for event in run.events if isinstance(event, PartDelta)] == list(answer.content[1:])
    other = UserMessage(content=(TextPart(text="Draw this."), FilePart(data=noise * 999, name="a.bin")))
    with pytest.raises(AssertionError, match="sha256"):
        await run(ChatClient(ReplayModel(path)), [other])


async def test_the_environment_s_secret_in_a_file_is_not_recorded(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", "correct-horse-42")
    path = tmp_path / "r.jsonl"
    prompt = UserMessage(content=(TextPart(text="Read."), FilePart(data=b"X=correct-horse-42", name=".env")))
    await ChatClient(RecordingModel(ScriptedModel(["ok"]), path)).call([prompt])
    assert base64.b64encode(b"correct-horse-42").decode()[4:16] not in everything(path)


@pytest.mark.parametrize(
    "text", ["x" * 200_000, "a-" * 100_000, "password " * 20_000, "eyJ" * 60_000, '"a' * 60_000, "token:" * 50_000]
)
def test_long_texts_take_no_longer_than_they_must(text: str) -> None:
    began = time.process_time()
    assert Scrubber().text(text) == text
    assert time.process_time() - began < 5, "in seconds; a pattern that goes back and forth takes hours"
