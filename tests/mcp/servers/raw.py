"""An MCP server that speaks JSON-RPC over stdio by hand, so that it starts at once and can break any rule.

Started as ``python raw.py '{"name": ..., "habits": {...}}'``. Habits:

    mute: methods that are not answered            exit_on: methods at which it exits
    garbage: methods answered with what is no JSON wrong_id: methods answered under another id
    close_stdout: methods at which it closes its output and lives on
    slow: seconds before an answer, by method       stderr: bytes written to standard error at each call
    noise: lines of its output that are no protocol before each answer
    logs: lines written before each answer to a call, with its id in the place of ID
    ignore_term: SIGTERM and the end of its input do not end it
    tools: the list of tools, or "many", "duplicate", "invalid", "loop"; tools_file: a file with that
    page: tools per page                            child: it starts a child process of its own, told by `family`
    starts: a file that gets a line for each start  calls: a file that gets a line for each call
    cancelled: a file that gets a line for each notifications/cancelled
    deaf: methods after which it reads nothing more
    told: after these tools it says that the list has changed
    fail: answers every call with this JSON-RPC error code
    result: answers every call with this result
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

SETTINGS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
HABITS: dict[str, Any] = SETTINGS.get("habits", {})
NAME = SETTINGS.get("name", "raw")
INTEGER = {"type": "integer"}
lock = threading.Lock()
family: list[int] = []


def tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": schema}


STANDARD = [
    {**tool("add", "Add two numbers.", a=INTEGER, b=INTEGER), "annotations": {"readOnlyHint": True}},
    {**tool("again", "Count, harmlessly."), "annotations": {"idempotentHint": True}},
    tool("count", "Count a call."),
    tool("pid", "The id of the server's process."),
    tool("family", "The ids of the server's process and its child."),
    tool("wait", "Wait.", seconds={"type": "number"}),
    tool("die", "End the server."),
    tool("big", "Give much text.", size=INTEGER),
    tool("bytes", "Give bytes that are no UTF-8."),
    tool("blocks", "Give blocks of every kind."),
    tool("refuse", "Say that the arguments are wrong."),
    tool("seen", "The names in the server's environment."),
]


def tools() -> list[dict[str, Any]]:
    given = HABITS.get("tools", STANDARD)
    if "tools_file" in HABITS:
        with open(HABITS["tools_file"]) as file:
            given = json.load(file)
    if given == "many":
        return [tool(f"tool_{number}", a=INTEGER) for number in range(5000)]
    if given == "duplicate":
        return [tool("twin", "The first."), tool("twin", "The second."), tool("other")]
    if given == "invalid":
        return [tool("fine"), {"name": "broken", "description": "It has no schema."}]
    if given == "loop":
        return [tool("fine")]
    return given


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def write(line: str) -> None:
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def note(habit: str, line: str) -> None:
    if habit in HABITS:
        with open(HABITS[habit], "a") as file:
            file.write(line + "\n")


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}]}


BLOCKS = [
    {"type": "text", "text": "first"},
    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    {"type": "text", "text": "second"},
    {"type": "resource", "resource": {"uri": "file:///r.txt", "text": "inside", "mimeType": "text/plain"}},
    {"type": "resource_link", "uri": "https://example.com/report.pdf", "name": "report"},
]


def call(request: dict[str, Any]) -> None:
    name = request["params"]["name"]
    arguments = request["params"].get("arguments") or {}
    note("calls", name)
    if "stderr" in HABITS:
        block = ("x" * 1023 + "\n") * 1024
        for _ in range(HABITS["stderr"] // len(block) + 1):
            sys.stderr.write(block)
        sys.stderr.flush()
    for _ in range(HABITS.get("noise", 0)):
        write("this is no JSON")
    for line in HABITS.get("logs", ()):
        write(line.replace("ID", str(request["id"])))
    if "fail" in HABITS:
        send({"id": request["id"], "error": {"code": HABITS["fail"], "message": "so it is"}})
        return
    if "result" in HABITS:
        send({"id": request["id"], "result": HABITS["result"]})
        return
    if name == "add":
        result = text(arguments["a"] + arguments["b"])
    elif name == "pid":
        result = text(os.getpid())
    elif name == "family":
        result = text(" ".join(map(str, [os.getpid(), *family])))
    elif name == "wait":
        time.sleep(arguments["seconds"])
        result = text("waited")
    elif name == "die":
        os._exit(3)
    elif name == "big":
        result = text("x" * arguments["size"])
    elif name == "bytes":
        with lock:
            sys.stdout.flush()
            sys.stdout.buffer.write(b'{"jsonrpc": "2.0", "id": %d, "result": ' % request["id"])
            sys.stdout.buffer.write(b'{"content": [{"type": "text", "text": "a\xff\xfeb"}]}}\n')
            sys.stdout.buffer.flush()
        return
    elif name == "blocks":
        result = {"content": BLOCKS}
    elif name == "refuse":
        send({"id": request["id"], "error": {"code": -32602, "message": "a must be a colour"}})
        return
    elif name == "seen":
        result = text(" ".join(sorted(os.environ)))
    else:
        result = text(f"{NAME} {name} done")
    send({"id": request["id"], "result": result})
    if name in HABITS.get("told", ()):
        send({"method": "notifications/tools/list_changed"})


def listing(request: dict[str, Any]) -> dict[str, Any]:
    cursor = (request.get("params") or {}).get("cursor")
    everything = tools()
    if HABITS.get("tools") == "loop":
        return {"tools": everything, "nextCursor": "b" if cursor == "a" else "a"}
    size = HABITS.get("page")
    if size is None:
        return {"tools": everything}
    start = int(cursor or 0)
    rest = {"nextCursor": str(start + size)} if start + size < len(everything) else {}
    return {"tools": everything[start : start + size], **rest}


def answer(request: dict[str, Any]) -> None:
    method = request["method"]
    if method in HABITS.get("mute", ()):
        return
    if method in HABITS.get("slow", {}):
        time.sleep(HABITS["slow"][method])
    if method in HABITS.get("garbage", ()):
        write('{"jsonrpc": "2.0", "id": ' + str(request.get("id")) + ', "result": {"tools": [')
        return
    if method in HABITS.get("wrong_id", ()):
        request = {**request, "id": 987654}
    if method in HABITS.get("close_stdout", ()):
        os.close(1)
        return
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        capabilities = {} if HABITS.get("no_tools") else {"tools": {"listChanged": True}}
        send({"id": request["id"], "result": {
            "protocolVersion": version, "capabilities": capabilities,
            "serverInfo": {"name": NAME, "version": "1"}, "instructions": "Do as I say.",
        }})  # fmt: skip
    elif method == "tools/list" and not HABITS.get("no_tools"):
        send({"id": request["id"], "result": listing(request)})
    elif method == "tools/call":
        call(request)
    elif method == "ping":
        send({"id": request["id"], "result": {}})
    elif "id" in request:
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    note("starts", str(os.getpid()))
    if HABITS.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if HABITS.get("child"):
        family.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method in HABITS.get("exit_on", ()):
            sys.stderr.write(f"{NAME} does not know {method}\n")
            sys.stderr.flush()
            os._exit(1)
        if method == "notifications/cancelled":
            note("cancelled", str(request["params"].get("requestId")))
        elif method is not None:
            threading.Thread(target=answer, args=(request,), daemon=True).start()
            if method in HABITS.get("deaf", ()):
                time.sleep(600)
    while HABITS.get("ignore_term"):
        time.sleep(1)


with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
    main()
os._exit(0)
