"""The examples of docs/examples do what the pages say, with a model, under call and under stream."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatRequest,
    ChatResponse,
    ModelError,
    TextDelta,
    Tool,
    ToolCall,
    ToolError,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    tool,
)
from advisorchain.testing import ScriptedModel

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"docs_example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def direct(tools: Any, name: str, **arguments: Any) -> tuple[ChatClient, ScriptedModel]:
    """A client whose model calls one tool, and would fail on being asked again."""
    model = ScriptedModel([[ToolCall(name, arguments)]])
    return ChatClient(model, tools=tools), model


# The calculator ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("1 + 2 * 3", "2 * 3 = 6\n1 + 6 = 7"),
        ("(1 + 2j) * (3 - 1j)", "1 + 2j = (1+2j)\n3 - 1j = (3-1j)\n(1+2j) * (3-1j) = (5+5j)"),
        ("sqrt(-4)", "sqrt(-4) = 2j"),
        ("2 * i", "2 * 1j = 2j"),
        ("-7 // 2", "-7 // 2 = -4"),
        ("abs(3 + 4j)", "3 + 4j = (3+4j)\nabs((3+4j)) = 5"),
        ("42", "42"),
        ("2 ** 100", f"2 ** 100 = {2**100}"),
    ],
)
async def test_the_calculator_shows_its_working(run: Any, expression: str, shown: str) -> None:
    client, model = direct([example("calculator").calculate], "calculate", expression=expression)
    response = await run(client, f"What is {expression}?")
    assert response.text == shown
    assert response.stop_reason == "return_direct"
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("__import__('os').getcwd()", "is not allowed"),
        ("(1).__class__", "is not allowed"),
        ("[1][0]", "is not allowed"),
        ("True + 1", "is not allowed"),
        ("x + 1", "is not allowed"),
        ("sqrt(1, 2)", "is not allowed"),
        ("9 ** 9 ** 9", "is too large"),
        ("1 / 0", "division by zero"),
        ("(2 + 1j) // 2", "has no value"),
        ("log(0)", "has no value"),
        ("1 +", "is not an arithmetic expression"),
        ("1" * 501, "501 characters"),
        ("(" * 250 + "1" + ")" * 250, "501 characters"),
        ("(" * 240 + "1" + ")" * 240, "is not an arithmetic expression"),
    ],
)
async def test_the_calculator_runs_no_code(run: Any, expression: str, problem: str) -> None:
    """An error is never direct: the model reads it and answers."""
    model = ScriptedModel([[ToolCall("calculate", {"expression": expression})], "I cannot calculate that."])
    response = await run(ChatClient(model, tools=[example("calculator").calculate]), "…")
    assert response.text == "I cannot calculate that."
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage) and result.is_error
    assert problem in result.text


# The SQL row ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path: Path) -> Any:
    path = tmp_path / "orders.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, status TEXT)")
        database.execute("INSERT INTO orders VALUES (7, 'lamp', 'shipped'), (8, 'desk', NULL)")
        database.commit()
    return example("sql_row").Orders(path)


@pytest.mark.parametrize(
    ("order_id", "shown"),
    [(7, "id: 7\nitem: lamp\nstatus: shipped"), (8, "id: 8\nitem: desk\nstatus: None"), (9, "NOT_FOUND")],
)
async def test_a_row_comes_back_as_text(run: Any, orders: Any, order_id: int, shown: str) -> None:
    client, _ = direct([orders], "find_order", order_id=order_id)
    response = await run(client, f"Where is order {order_id}?")
    assert response.text == shown


async def test_the_database_is_read_only(orders: Any) -> None:
    with closing(sqlite3.connect(orders.uri, uri=True)) as database, pytest.raises(sqlite3.OperationalError):
        database.execute("DELETE FROM orders")


async def test_sql_in_an_argument_is_no_sql(run: Any, orders: Any) -> None:
    model = ScriptedModel([[ToolCall("find_order", {"order_id": "7 OR 1=1"})], "Which order?"])
    response = await run(ChatClient(model, tools=[orders]), "…")
    assert response.text == "Which order?"
    assert model.requests[1].messages[-1].is_error  # type: ignore[union-attr]


# The HTTP proxy ------------------------------------------------------------------------------------------------------

TOKEN = "tok-51d7"
INVOICE = '{"number": 12, "total": "80.00", "note": "für Zoë"}\n'


@pytest.fixture
def invoice_server() -> Iterator[str]:
    """A real HTTP server on this machine that wants the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._answer(401, f"bad token {self.headers['Authorization']}")
            elif self.path == "/invoices/12":
                self._answer(200, INVOICE)
            else:
                self._answer(404, "no such invoice")

        def _answer(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_the_proxy_hands_the_body_on_byte_for_byte(run: Any, invoice_server: str) -> None:
    tools = example("http_proxy").invoice_tools(invoice_server, TOKEN)
    client, model = direct(tools, "get_invoice", number=12)
    response = await run(client, "Show me invoice 12")
    assert response.text == INVOICE
    assert TOKEN not in repr([model.requests[0].messages, [t.input_schema for t in model.requests[0].tools]])


@pytest.mark.parametrize(
    ("token", "number", "told"),
    [(TOKEN, 13, "There is no invoice 13."), ("wrong", 12, "The invoice service answered with status 401.")],
)
async def test_errors_of_the_service_reach_the_model_without_the_token(
    run: Any, invoice_server: str, token: str, number: int, told: str
) -> None:
    model = ScriptedModel([[ToolCall("get_invoice", {"number": number})], "Sorry."])
    client = ChatClient(model, tools=example("http_proxy").invoice_tools(invoice_server, token))
    assert (await run(client, "…")).text == "Sorry."
    assert model.requests[1].messages[-1].text == told


# The profile ---------------------------------------------------------------------------------------------------------


async def test_a_profile_comes_back_as_json_and_as_the_object(run: Any) -> None:
    module = example("user_profile")
    client, _ = direct([module.get_profile], "get_profile", login="wen")
    response = await run(client, "Who is wen?")
    assert json.loads(response.text) == {"name": "李文", "team": "Reisen", "languages": ["中文", "Deutsch"]}
    assert "李文" in response.text
    assert response.direct_results[0].artifact is module.PROFILES["wen"]


async def test_a_profile_that_does_not_exist_goes_back_to_the_model(run: Any) -> None:
    model = ScriptedModel([[ToolCall("get_profile", {"login": "bob"})], "I know no bob."])
    response = await run(ChatClient(model, tools=[example("user_profile").get_profile]), "…")
    assert response.text == "I know no bob."
    assert model.requests[1].messages[-1].text == "There is no user 'bob'."


# Server-sent events --------------------------------------------------------------------------------------------------


def sent(body: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream of server-sent events."""
    found = []
    for chunk in body.split("\n\n"):
        if chunk:
            kind, data = chunk.split("\n")
            found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def post(app: Any, path: str, prompt: str) -> list[tuple[str, dict[str, Any]]]:
    with TestClient(app) as browser:
        response = browser.post(path, json={"prompt": prompt})
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        return sent(response.text)


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"{city}: sunny\nwind: none"


def test_the_sse_endpoint_streams_a_turn() -> None:
    model = ScriptedModel([["Let me look.\n\n", ToolCall("get_weather", {"city": "Genève"})], "Sunny."], chunk_size=100)
    events = post(example("sse").create_app(ChatClient(model, tools=[get_weather])), "/chat", "Weather in Genève?")
    assert events == [
        ("clear", {}),
        ("text", {"text": "Let me look.\n\n"}),
        ("tool", {"name": "get_weather", "direct": False}),
        ("tool_done", {"name": "get_weather", "failed": False}),
        ("clear", {}),
        ("text", {"text": "Sunny."}),
        ("done", {"text": "Sunny.", "stop_reason": "final"}),
    ]


def test_the_sse_endpoint_says_that_a_turn_failed() -> None:
    model = ScriptedModel([ModelError("the model is gone; key sk-123", status=503)])
    events = post(example("sse").create_app(ChatClient(model)), "/chat", "Hello")
    assert events == [("clear", {}), ("error", {"kind": "ModelError"})]


# The manual loop -----------------------------------------------------------------------------------------------------


def travel_desk() -> tuple[list[Tool], list[str]]:
    booked: list[str] = []

    @tool
    def book_flight(city: str) -> str:
        """Book a flight."""
        booked.append(city)
        return f"booked {city}"

    return [get_weather, book_flight], booked


def allow_only_weather(call: ToolCall) -> bool:
    return call.name == "get_weather"


async def test_a_gate_denies_one_of_two_calls(run: Any) -> None:
    """With call and with stream: every call has a result, only the allowed one ran."""
    tools, booked = travel_desk()
    model = ScriptedModel(
        [
            ["Looking.", ToolCall("get_weather", {"city": "Rome"}), ToolCall("book_flight", {"city": "Rome"})],
            "It is sunny; the flight needs an approval.",
        ]
    )
    client = ChatClient(model, tools=tools)
    response = await run(client, "Book Rome if it is sunny", tool_loop=False)
    assert [call.name for call in response.tool_calls] == ["get_weather", "book_flight"]
    assert not any(isinstance(event, ToolStarted | ToolFinished) for event in run.events)

    allowed = [call for call in response.tool_calls if allow_only_weather(call)]
    execution = await client.execute_tools(response, allowed)
    assert booked == []
    assert [(result.name, result.is_error) for result in execution.results] == [
        ("get_weather", False),
        ("book_flight", True),
    ]
    response = await run(client, execution.messages, tool_loop=False)
    assert response.text == "It is sunny; the flight needs an approval."
    assert not response.tool_calls
    model.assert_finished()


def test_the_manual_loop_behind_an_endpoint() -> None:
    tools, booked = travel_desk()
    model = ScriptedModel(
        [
            ["Looking.", ToolCall("get_weather", {"city": "Rome"}), ToolCall("book_flight", {"city": "Rome"})],
            "Sunny; not booked.",
        ],
        chunk_size=100,
    )
    app = example("manual_loop").create_app(ChatClient(model, tools=tools), allow_only_weather)
    assert post(app, "/chat/1", "Book Rome if it is sunny") == [
        ("text", {"text": "Looking."}),
        ("tool", {"name": "get_weather", "failed": False, "content": "Rome: sunny\nwind: none"}),
        (
            "tool",
            {
                "name": "book_flight",
                "failed": True,
                "content": "Not executed: the application did not allow this call.",
            },
        ),
        ("text", {"text": "Sunny; not booked."}),
        ("done", {"text": "Sunny; not booked."}),
    ]
    assert booked == []


def test_the_manual_loop_can_be_stopped_between_rounds() -> None:
    tools, booked = travel_desk()
    stop: list[Callable[[], Any]] = []

    def second_round(request: Any) -> Any:
        stop[0]()  # the user presses stop while the model writes
        return ["Booking.", ToolCall("book_flight", {"city": "Rome"})]

    model = ScriptedModel([[ToolCall("get_weather", {"city": "Rome"})], second_round, "never"], chunk_size=100)
    app = example("manual_loop").create_app(ChatClient(model, tools=tools), lambda call: True)
    with TestClient(app) as browser, TestClient(app) as other_tab:
        stop.append(lambda: other_tab.post("/stop/1").raise_for_status())
        events = sent(browser.post("/chat/1", json={"prompt": "Book Rome"}).text)
    assert events[-2:] == [("text", {"text": "Booking."}), ("stopped", {"open_calls": 1})]
    assert booked == []
    assert len(model.requests) == 2


async def test_the_manual_loop_ends_after_its_rounds() -> None:
    module = example("manual_loop")
    model = ScriptedModel([[ToolCall("get_weather", {"city": "Rome"})]] * module.MAX_ROUNDS)
    client = ChatClient(model, tools=[get_weather])
    events = [event async for event in module.turn(client, "…", lambda call: True, lambda: False)]
    assert sent("".join(events))[-1] == ("stopped", {"rounds": module.MAX_ROUNDS})


async def test_a_direct_tool_ends_the_manual_loop() -> None:
    module = example("manual_loop")
    client, _ = direct([example("calculator").calculate], "calculate", expression="6 * 7")
    events = [event async for event in module.turn(client, "6 * 7?", lambda call: True, lambda: False)]
    assert sent("".join(events))[-1] == ("done", {"text": "6 * 7 = 42"})


# A service -----------------------------------------------------------------------------------------------------------


def service(model: Any, closed: list[str] | None = None, **settings: Any) -> Any:
    module = example("service")

    async def make_client(stack: Any) -> ChatClient:
        stack.callback((closed if closed is not None else []).append, "closed")
        return ChatClient(model, advisors=[module.deadline])

    return module, module.create_app(make_client, **settings)


def test_the_service_closes_what_its_lifespan_entered() -> None:
    closed: list[str] = []
    _, app = service(ScriptedModel(["Hello."], chunk_size=100), closed)
    with TestClient(app) as browser:
        events = sent(browser.post("/chat/1", json={"prompt": "Hi"}).text)
        assert not closed
    assert events == [("clear", {}), ("text", {"text": "Hello."}), ("done", {"text": "Hello."})]
    assert closed == ["closed"]


def test_a_full_service_says_so_and_has_room_again() -> None:
    others: list[Any] = []

    def ask_again(request: Any) -> str:  # a second browser, while the model answers the first one
        others.append(other.post("/chat/2", json={"prompt": "Hi"}))
        others.append(other.get("/health"))
        return "Hello."

    _, app = service(ScriptedModel([ask_again, ModelError("down"), "Hello."]), places=1)
    other = TestClient(app)
    with TestClient(app) as browser:
        assert sent(browser.post("/chat/1", json={"prompt": "Hi"}).text)[-1] == ("done", {"text": "Hello."})
        busy, health = others
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "5")
        assert health.json() == {"ok": True}
        assert sent(browser.post("/chat/1", json={"prompt": "Hi"}).text)[-1] == ("error", {"kind": "ModelError"})
        assert sent(browser.post("/chat/1", json={"prompt": "Hi"}).text)[-1] == ("done", {"text": "Hello."})


def test_the_deadline_ends_a_turn_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def hangs(request: Any) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    module, app = service(hangs)
    monkeypatch.setattr(module, "TURN_SECONDS", 0.05)
    with TestClient(app) as browser:
        assert sent(browser.post("/chat/1", json={"prompt": "Hi"}).text)[-1] == ("error", {"kind": "TimeoutError"})
    assert ended == ["cancelled"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"3", b"[]", b"{}", b'{"prompt": 3}', b'{"prompt": [{"role": "tool"}]}']
)
def test_the_service_refuses_what_is_no_prompt(body: bytes) -> None:
    model = ScriptedModel([])
    with TestClient(service(model)[1]) as browser:
        response = browser.post("/chat/1", content=body)
    assert response.status_code == 400
    assert response.json() == {"error": 'send {"prompt": "..."}'}
    assert model.requests == []


def test_the_service_tells_of_a_bug_in_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    events = post(service(ScriptedModel([ZeroDivisionError("of the tariff")]))[1], "/chat/1%0aforged", "Hello")
    assert events == [("clear", {}), ("error", {"kind": "InternalError"})]
    assert "ZeroDivisionError" in caplog.text and "\nforged" not in caplog.text


@pytest.mark.parametrize("name", ["sse", "manual_loop", "service"])
def test_half_an_emoji_does_not_cut_a_stream_off(name: str) -> None:
    halves = ["\ud83d", "\ude00 Grüezi"]  # as a provider streams a smile that its tokens part

    async def smiles(request: ChatRequest) -> ChatResponse:
        for half in halves:
            await request.emit(TextDelta(half))
        return ChatResponse(AssistantMessage(content="".join(halves)))

    if name == "service":
        _, app = service(smiles)
    else:
        app = example(name).create_app(ChatClient(smiles), *[allow_only_weather] * (name == "manual_loop"))
    events = post(app, "/chat" if name == "sse" else "/chat/1", "Smile")
    texts = [data["text"] for kind, data in events if kind in ("text", "done")]
    assert texts == [*halves, "\N{GRINNING FACE} Grüezi"]


def test_all_examples_are_tested() -> None:
    tested = {"calculator", "http_proxy", "manual_loop", "service", "sql_row", "sse", "user_profile"}
    tested |= {"travel"}  # by the commands of cli.md
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


async def test_text_deltas_of_the_manual_loop_are_the_models_text() -> None:
    client = ChatClient(ScriptedModel(["abcdefgh"], chunk_size=3))
    async with client.stream("…", tool_loop=False) as stream:
        pieces = [event.text async for event in stream if isinstance(event, TextDelta)]
    assert pieces == ["abc", "def", "gh"]


async def test_a_tool_error_is_what_the_calculator_raises() -> None:
    with pytest.raises(ToolError, match="division by zero"):
        example("calculator").calculate("1 / 0")
