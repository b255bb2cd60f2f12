"""Traces of the program's own turns: printed, written to files, and sent to a real OTLP server."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from otlp_receiver import OtlpReceiver
from rich.console import Console
from typer.testing import CliRunner

from advisorchain import ChatClient
from advisorchain.cli.app import app
from advisorchain.cli.choice import UsageProblem
from advisorchain.cli.trace_spans import read_spans
from advisorchain.cli.tracing import Tracing, not_traced
from advisorchain.cli.tracing_options import TracingOptions, endpoint
from advisorchain.models.http.addresses import shown_address
from advisorchain.testing import ScriptedModel

from .conftest import environment

DESK = "advisorchain.cli.travel_desk:TravelDesk"
ASK = ("run", "Status of TR001?", "-m", "keyword", "-t", DESK)
ANSWER = "TR001 is approved. Amount: 5000. Department: engineering.\n"
TREE = re.compile(r"^ *[\d.]+ (?:µs|ms|s) ", re.M)
SECRET = "TR001"


def test_run_prints_the_tree_on_stderr_and_nothing_but_the_answer_on_stdout(advisorchain: Any) -> None:
    done = advisorchain(*ASK, "--trace")
    assert (done.returncode, done.stdout) == (0, ANSWER)
    assert re.search(r"trace  [0-9a-f]{32}\n", done.stderr)
    assert "invoke_agent" in done.stderr and "1 model call · 1 tool call · return_direct" in done.stderr
    assert "execute_tool query_travel_request · direct" in done.stderr
    assert "⊘ short-circuited" in done.stderr and "round 2" in done.stderr
    assert SECRET not in done.stderr and "\x1b" not in done.stderr


def test_without_the_options_nothing_is_traced_and_nothing_loaded(advisorchain: Any) -> None:
    done = advisorchain(*ASK)
    assert (done.stdout, done.stderr) == (ANSWER, "")
    code = (
        "import sys\nfrom advisorchain.cli import tracing, app\n"
        "from rich.console import Console\nTraced = tracing.not_traced(Console())\n"
        "with Traced: Traced.turn_done()\n"
        "assert not {m for m in sys.modules if m.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_content_is_in_the_trace_when_it_is_asked_for(advisorchain: Any, work_dir: Path) -> None:
    file = work_dir / "trace.jsonl"
    advisorchain(*ASK, "--trace-file", "trace.jsonl")
    assert SECRET not in file.read_text(encoding="utf-8")
    shown = advisorchain(*ASK, "--trace-file", "trace.jsonl", "--trace", "--trace-content")
    assert 'execute_tool query_travel_request(request_id="TR001") · direct' in shown.stderr
    assert SECRET in file.read_text(encoding="utf-8")
    by_variable = advisorchain(*ASK, "--trace", OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="SPAN_ONLY")
    assert 'query_travel_request(request_id="TR001")' in by_variable.stderr


def test_files_of_spans_and_the_page(advisorchain: Any, work_dir: Path) -> None:
    for _ in range(2):
        done = advisorchain(*ASK, "--trace-file", "trace.jsonl", "--trace-html", "trace.html")
        assert (done.returncode, done.stdout, done.stderr) == (0, ANSWER, "")
    spans = read_spans(work_dir / "trace.jsonl")
    assert len({span.trace_id for span in spans}) == 2, "appended"
    roots = [span for span in spans if span.parent_id is None]
    assert len(roots) == 2 and all(span.name.startswith("invoke_agent") and span.end for span in roots)
    line = json.loads((work_dir / "trace.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert line["resource"]["attributes"]["service.name"] == "advisorchain"
    page = (work_dir / "trace.html").read_text(encoding="utf-8")
    assert page.startswith("<!") and "advisorchain run" in page and "execute_tool query_travel_request" in page


def test_otlp_sends_every_span_to_a_real_server(advisorchain: Any, work_dir: Path) -> None:
    with OtlpReceiver().serve() as receiver:
        done = advisorchain(
            *ASK, "--otlp", receiver.url, "--trace-file", "t.jsonl", OTEL_EXPORTER_OTLP_HEADERS="x-key=k1"
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, ANSWER, "")
        assert set(receiver.paths) == {"/v1/traces"} and receiver.services == {"advisorchain"}
        assert receiver.headers[0]["x-key"] == "k1"
        sent = sorted((span.span_id.hex(), span.name) for span in receiver.spans)
    assert sent == sorted((span.span_id, span.name) for span in read_spans(work_dir / "t.jsonl"))


def test_otlp_takes_a_path_as_it_is_and_another_name_of_the_service(advisorchain: Any) -> None:
    with OtlpReceiver().serve() as receiver:
        advisorchain(*ASK, "--otlp", f"{receiver.url}/api/traces", OTEL_SERVICE_NAME="desk")
        assert set(receiver.paths) == {"/api/traces"} and receiver.services == {"desk"}


def test_otlp_with_no_server_is_one_line_and_a_turn_that_works(advisorchain: Any) -> None:
    begin = time.monotonic()
    done = advisorchain(*ASK, "--otlp", "http://user:password@127.0.0.1:9/?key=secret")
    assert time.monotonic() - begin < 10, "the program's own start included"
    assert (done.returncode, done.stdout) == (0, ANSWER)
    assert done.stderr == "warning: The trace did not reach http://127.0.0.1:9/v1/traces: Connection refused.\n"


@pytest.mark.parametrize(
    ("receiver", "says"),
    [(OtlpReceiver(404), "it answered 404 Not Found"), (OtlpReceiver(answers_after=20), "no answer within 2 s")],
)
def test_otlp_with_a_server_that_takes_nothing(receiver: OtlpReceiver, says: str) -> None:
    stderr = io.StringIO()
    with receiver.serve():
        tracing = Tracing(TracingOptions(otlp=receiver.url), "t", Console(file=io.StringIO()))
        began = 0.0
        with pytest.MonkeyPatch.context() as patch, tracing:
            patch.setattr(sys, "stderr", stderr)
            client = ChatClient(ScriptedModel(["hello"]), telemetry=tracing.telemetry)
            assert client.call_sync("hi").text == "hello"
            tracing.turn_done()
            began = time.monotonic()
            tracing.__exit__(None, None, None)
        assert time.monotonic() - began < 10
    assert stderr.getvalue() == f"warning: The trace did not reach {receiver.url}/v1/traces: {says}.\n"


@pytest.mark.parametrize(("turns", "size"), [(300, None), (1_000, "4")])
async def test_a_burst_of_spans_arrives_whole_or_is_told(
    turns: int, size: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if size is not None:
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", size)
        monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", size)
    with OtlpReceiver().serve() as receiver:
        with Tracing(TracingOptions(otlp=receiver.url), "t", Console(file=io.StringIO())) as tracing:
            client = ChatClient(ScriptedModel(["hi"] * turns), telemetry=tracing.telemetry)
            for _ in range(turns):
                await client.call("hi")
            tracing.turn_done()
        arrived = len(receiver.spans)
    said = capsys.readouterr().err
    if arrived == 4 * turns:
        assert said == ""
    else:
        assert size is not None, "they all fit into the queue"
        assert said.startswith(f"warning: Part of the trace did not reach {receiver.url}/v1/traces: there was too much")


def test_otlp_without_the_exporter_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from advisorchain import ConfigurationError

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigurationError, match=re.escape("pip install 'advisorchain[otlp]'")):
        Tracing(TracingOptions(otlp="http://localhost:4318"), "t", Console())


@pytest.mark.parametrize(
    ("url", "goes_to"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("https://host/", "https://host/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ("http://host/api/otlp", "http://host/api/otlp"),
        ("http://host?key=1", "http://host/v1/traces?key=1"),
    ],
)
def test_where_traces_go(url: str, goes_to: str) -> None:
    assert endpoint(url) == goes_to


@pytest.mark.parametrize(
    "url",
    ["", "localhost:4318", "ftp://host", "http://", "http://host:99999", "http://a b", "http://[::1", "http://h\n"],
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(UsageProblem, match="--otlp takes a URL such as http://localhost:4318"):
        TracingOptions(otlp=url)


def test_passwords_are_not_shown() -> None:
    assert shown_address("ftp://user:password@host:1/path?key=secret") == "ftp://host:1/path"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--trace-content"], "--trace-content goes with --trace, --otlp, --trace-html or --trace-file."),
        (["--trace-html", "."], "--trace-html '.': that is a directory."),
        (["--trace-file", "missing/t.jsonl"], "--trace-file 'missing/t.jsonl': there is no directory 'missing'."),
        (
            ["--trace-html", "my_tools.py"],
            "--trace-html 'my_tools.py': that file is no trace page, and is not replaced.",
        ),
        (
            ["--trace-html", "t.x", "--trace-file", "./t.x"],
            "--trace-html and --trace-file need a file each: both name 't.x'.",
        ),
        (["--otlp", "host:1"], "--otlp takes a URL such as http://localhost:4318, not 'host:1'."),
    ],
)
@pytest.mark.parametrize("command", [["run", "hi"], ["chat"], ["demo"]])
def test_wrong_options_end_before_anything_runs(
    work_dir: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(work_dir)
    done = CliRunner().invoke(app, [*command, *arguments])
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {says}\n")


def test_a_turn_that_fails_is_traced(advisorchain: Any, work_dir: Path) -> None:
    (work_dir / "sitecustomize.py").write_text(
        "from advisorchain.models import KeywordModel\n"
        "async def fail(self, request): raise RuntimeError('secret of the model')\n"
        "KeywordModel.__call__ = fail\n",
        encoding="utf-8",
    )
    done = advisorchain(*ASK, "--trace", "--trace-html", "t.html", PYTHONPATH=str(work_dir))
    assert done.returncode == 1 and done.stdout == ""
    tree, _, error = done.stderr.rpartition("error: ")
    assert "chat keyword · ✗ RuntimeError" in tree and TREE.findall(tree)
    assert "secret" not in tree and "secret of the model" in error
    assert "RuntimeError" in (work_dir / "t.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("sent", "code", "background"),
    [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, False), (signal.SIGTERM, 143, True)],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupted_turn_is_traced(work_dir: Path, sent: signal.Signals, code: int, background: bool) -> None:
    command = [sys.executable, "-m", "advisorchain.cli", "run", "slow", "-m", "keyword", "-t", "my_tools:everything"]
    command += ["--trace", "--trace-file", "t.jsonl", "--trace-html", "t.html", "--verbose"]
    if background:  # as a shell starts what runs in the background
        command = ["sh", "-c", f"trap '' INT; exec {shlex.join(command)}"]
    with subprocess.Popen(
        command, cwd=work_dir, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        encoding="utf-8",
    ) as running:  # fmt: skip
        assert running.stderr is not None
        for line in running.stderr:
            if "tool slow" in line:
                break
        running.send_signal(sent)
        _, stderr = running.communicate(timeout=20)
    assert running.returncode == code
    assert re.search(r"execute_tool slow .*cancelled", stderr) and "Warning" not in stderr, stderr
    spans = read_spans(work_dir / "t.jsonl")
    assert {"execute_tool slow", "chat keyword"} <= {span.name for span in spans}
    assert all(span.end for span in spans)
    assert "execute_tool slow" in (work_dir / "t.html").read_text(encoding="utf-8")


def test_chat_prints_a_tree_after_each_turn_and_writes_it_then(advisorchain: Any, work_dir: Path) -> None:
    questions = "Status of TR001?\nStatus of TR002?\n/exit\n"
    options = ("--trace", "--trace-file", "t.jsonl", "--trace-html", "t.html")
    done = advisorchain("chat", "-m", "keyword", "-t", DESK, *options, input=questions)
    assert done.returncode == 0
    first, second = (done.stdout.index(said) for said in ("TR001 is approved", "TR002 is pending"))
    trees = [found.start() for found in re.finditer("invoke_agent", done.stdout)]
    assert len(trees) == 2 and first < trees[0] < second < trees[1]
    assert len({span.trace_id for span in read_spans(work_dir / "t.jsonl")}) == 2
    assert (work_dir / "t.html").read_text(encoding="utf-8").count("execute_tool query_travel_request") == 2


def test_chat_writes_each_turn_when_it_ends(work_dir: Path) -> None:
    command = [sys.executable, "-m", "advisorchain.cli", "chat", "-m", "keyword", "-t", DESK, "--trace-file", "t.jsonl"]
    with subprocess.Popen(
        command, cwd=work_dir, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, encoding="utf-8",
    ) as running:  # fmt: skip
        assert running.stdin is not None
        running.stdin.write("Status of TR001?\n")
        running.stdin.flush()
        file, until = work_dir / "t.jsonl", time.monotonic() + 20
        while not (file.exists() and "invoke_agent" in file.read_text(encoding="utf-8")):
            assert time.monotonic() < until
            time.sleep(0.05)
        running.communicate("", timeout=20)
    assert running.returncode == 0


@pytest.mark.parametrize("options", [TracingOptions(tree=True), TracingOptions(tree=True, html=Path("t.html"))])
async def test_spans_are_kept_for_the_page_only(
    options: TracingOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    tracing = Tracing(options, "t", Console(file=printed))
    with tracing:
        client = ChatClient(ScriptedModel([f"answer {number}" for number in range(20)]), telemetry=tracing.telemetry)
        kept = []
        for _ in range(20):
            await client.call("hi")
            tracing.turn_done()
            kept.append(len(tracing._kept))
            assert not tracing._spans.take(unfinished=True)
    assert printed.getvalue().count("invoke_agent") == 20
    assert kept[-1] == 0 if options.html is None else kept == [4 * number for number in range(1, 21)]


async def test_spans_that_are_not_finished_are_shown_at_the_end() -> None:
    printed = io.StringIO()
    with Tracing(TracingOptions(tree=True), "t", Console(file=printed, width=120)) as tracing:
        started = anyio.Event()

        async def never(request: Any) -> Any:
            started.set()
            await anyio.sleep_forever()

        client = ChatClient(ScriptedModel([never]), telemetry=tracing.telemetry)
        async with anyio.create_task_group() as group:
            group.start_soon(client.call, "hi")
            await started.wait()
            tracing.turn_done()
            assert printed.getvalue() == ""
            tracing.__exit__(None, None, None)
            group.cancel_scope.cancel()
    assert printed.getvalue().count("not finished") == 4


def test_a_disk_that_is_full_is_one_line_and_not_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    with Tracing(TracingOptions(file=Path("/dev/full")), "t", Console()) as tracing:
        client = ChatClient(ScriptedModel(["one", "two"]), telemetry=tracing.telemetry)
        for expected in ("one", "two"):
            assert client.call_sync("hi").text == expected
            tracing.turn_done()
    said = capsys.readouterr().err
    assert said == "warning: The trace file /dev/full could not be written: No space left on device.\n"


def test_a_switch_that_turns_tracing_off_is_named(advisorchain: Any) -> None:
    done = advisorchain(*ASK, "--trace", OTEL_SDK_DISABLED="true")
    assert (done.stdout, done.stderr) == (
        ANSWER,
        "warning: No spans were recorded: a variable OTEL_SDK_DISABLED or OTEL_TRACES_SAMPLER may say so.\n",
    )


def test_spans_of_other_libraries_stand_in_the_tree(advisorchain: Any, work_dir: Path) -> None:
    (work_dir / "traced.py").write_text(
        "from opentelemetry import trace\nfrom advisorchain import tool\n\n\n"
        "@tool\nasync def lookup(text: str) -> str:\n"
        '    """Look up a text."""\n'
        '    with trace.get_tracer("my.database").start_as_current_span("SELECT texts"):\n'
        "        return text\n",
        encoding="utf-8",
    )
    done = advisorchain("run", 'lookup "x"', "-m", "keyword", "-t", "traced:lookup", "--trace")
    lines = done.stderr.splitlines()
    (above,) = (number for number, line in enumerate(lines) if "execute_tool lookup" in line)
    assert lines[above + 1].endswith("└ SELECT texts")


@pytest.mark.parametrize(
    ("mode", "turns", "part"),
    [
        ([], 3, "chat keyword"),
        (["--tools", "20"], 2, "retrieval"),
        (["--resilience"], 5, "↻ 2 calls"),
        pytest.param(["--mcp"], 4, "execute_tool queryOrderList", marks=pytest.mark.slow),
    ],
)
def test_every_demo_prints_its_turns(advisorchain: Any, mode: list[str], turns: int, part: str) -> None:
    done = advisorchain("demo", *mode, "--trace")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall("^ .*invoke_agent travel_desk ·", done.stdout, re.M)) == turns
    assert part in done.stdout and "not finished" not in done.stdout


def test_nothing_to_trace_is_nothing_to_do() -> None:
    tracing = not_traced(Console())
    assert tracing.telemetry is True and tracing.throw_away() is False
    with tracing:
        tracing.turn_done()
