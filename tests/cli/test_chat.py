"""``advisorchain chat`` through a pipe and on a real terminal."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pty = pytest.importorskip("pty")


def test_a_conversation_through_a_pipe(advisorchain: Any) -> None:
    desk = "advisorchain.cli.travel_desk:TravelDesk"
    lines = "Status of TR001?\n\nand TR003?\nAnalyze the budget of sales\n/exit\nStatus of TR002?\n"
    done = advisorchain("chat", "--tools", desk, input=lines)
    assert done.returncode == 0
    assert done.stderr == "model: keyword (offline and rule-based; OPENAI_API_KEY is not set)\n"
    assert re.sub(r"[\d.]+ ms", "N ms", done.stdout) == (
        '  → query_travel_request(request_id="TR001") · direct\n'
        "  ✓ query_travel_request · N ms\n"
        "TR001 is approved. Amount: 5000. Department: engineering.\n\n"
        '  → query_travel_request(request_id="TR003") · direct\n'
        "  ✓ query_travel_request · N ms\n"
        "TR003 is rejected: over budget. Department: marketing.\n\n"
        '  → analyze_travel_budget(department="sales")\n'
        "  ✓ analyze_travel_budget · N ms\n"
        "According to analyze travel budget: Sales: 0 approved, 3000 pending, rejected as over budget: none.\n\n"
    )


def test_the_end_of_the_input_leaves(advisorchain: Any) -> None:
    done = advisorchain("chat", "-m", "keyword", input="hello")
    assert done.returncode == 0 and "rule-based" in done.stdout


def test_a_closed_input_leaves() -> None:
    for command in ("chat -m keyword", "run -m keyword -"):
        program = f"import sys; from advisorchain.cli import main; sys.argv[1:] = {command.split()}; main()"
        line = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(program)} <&-"
        done = subprocess.run(line, shell=True, capture_output=True, text=True)
        assert done.returncode == 0 and "Error" not in done.stderr, done.stderr


def test_a_failed_tool_is_shown_and_the_conversation_goes_on(advisorchain: Any) -> None:
    done = advisorchain("chat", "-m", "keyword", "-t", "my_tools:everything", input='do something broken\necho "on"\n')
    assert "✗ broken" in done.stdout
    assert "According to echo: on." in done.stdout
    assert done.returncode == 0 and "Traceback" not in done.stderr


ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "advisorchain.cli", *sys.argv[1:]])
"""
"""Makes the pseudo-terminal the controlling one, so that Ctrl-C reaches the program, and becomes the program.

Not by ``preexec_fn``, which runs what others have registered for a fork: a `TracerProvider` of OpenTelemetry's SDK then
waits for a lock for ever, when it was made before anybody had used a thread pool.
"""


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, work_dir: Path, *arguments: str, columns: int = 60) -> None:
        self.master, slave = pty.openpty()
        environment = {
            "PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40",
            "PYTHONUTF8": "1",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *arguments],
            stdin=slave, stdout=slave, stderr=slave, cwd=work_dir, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait_for(self, pattern: str, seconds: float = 20) -> None:
        """Read until the pattern is on the screen; what is read before it is forgotten by the next wait."""
        import select

        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            if select.select([self.master], [], [], left)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the other side is closed
                    data = b""
                if not data:
                    raise AssertionError(f"no {pattern!r} in {self.seen!r} before it left")
                self.seen += data.decode(errors="replace")
        self.seen = self.seen[match.end() :]

    def wait_for_prompt(self) -> None:
        """Wait until Ctrl-C reaches the prompt: readline shows it a moment before it looks for signals."""
        self.wait_for("you> ")
        time.sleep(0.5)

    def leave_code(self, seconds: float = 20) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(work_dir: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def open_terminal(*arguments: str, **options: Any) -> Terminal:
        opened.append(Terminal(work_dir, *arguments, **options))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


def test_ctrl_c_cancels_the_turn_and_a_second_one_leaves(terminal: Open) -> None:
    chat = terminal("chat", "-m", "keyword", "-t", "my_tools:everything")
    chat.wait_for("you> ")
    chat.type("do something slow\n")
    chat.wait_for(r"→ slow\(\)")
    chat.wait_for("slow: [1-9]")  # the spinner shows the progress
    chat.type("\x03")
    chat.wait_for("cancelled; Ctrl-C again or /exit leaves")
    chat.wait_for("you> ")
    chat.type('echo "still here"\n')
    chat.wait_for("According to echo: still here")
    chat.wait_for_prompt()
    chat.type("\x03")
    chat.wait_for("Ctrl-C again or /exit leaves")
    chat.wait_for_prompt()
    chat.type("\x03")
    assert chat.leave_code() == 130


def test_pasted_lines_are_one_message(terminal: Open) -> None:
    """A terminal puts marks around what is pasted, once it is told to."""
    if "libedit" in str(pytest.importorskip("readline").__doc__):
        pytest.skip("this Python has libedit, which knows no such marks")
    chat = terminal("chat", "-m", "keyword", "-t", "my_tools:everything")
    chat.wait_for(re.escape("\x1b[?2004h"))
    chat.wait_for("you> ")
    chat.type('\x1b[200~please echo\r"one"\ror what?\r\x1b[201~')
    chat.type("\n")
    chat.wait_for("According to echo: one")
    chat.wait_for("you> ")
    assert "According" not in chat.seen and "stand-in" not in chat.seen, "each line would be a turn"
    chat.type("/exit\n")
    assert chat.leave_code() == 0


def test_exit_leaves_a_terminal_with_0(terminal: Open) -> None:
    chat = terminal("chat", "-m", "keyword")
    chat.wait_for("you> ")
    chat.type("hello\n")
    chat.wait_for("rule-based")
    chat.wait_for("you> ")
    chat.type("/exit\n")
    assert chat.leave_code() == 0


def test_ctrl_c_ends_a_run_with_130(terminal: Open) -> None:
    run = terminal("run", "do something slow", "-m", "keyword", "-t", "my_tools:everything", "--verbose")
    run.wait_for("tool slow starts")
    run.type("\x03")
    run.wait_for("error: cancelled")
    assert run.leave_code() == 130


@pytest.mark.parametrize("columns", [40, 60])
def test_streamed_text_is_wrapped_at_words(terminal: Open, columns: int) -> None:
    chat = terminal("chat", "-m", "keyword", columns=columns)
    chat.wait_for("you> ")
    chat.type("hello\n")
    chat.wait_for("I am")
    chat.wait_for(r"(?s).*you> ")
    again = terminal("run", "hello", "-m", "keyword", columns=columns)
    again.wait_for(r"(?s)(?=I am.*answer\.\r\n)")
    lines = again.seen.split("answer.")[0].split("\r\n")
    assert len(lines) >= 2
    assert all(len(line) <= columns for line in lines)
    assert " ".join(line.strip() for line in lines).startswith("I am a rule-based offline stand-in, not a language")
