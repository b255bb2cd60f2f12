"""The third phase: tools of modules, and MCP servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from advisorchain.mcp import McpTools, ToolFilter

MODEL = 'model = "keyword"\n'
RAW = Path(__file__).resolve().parents[1] / "mcp" / "servers" / "raw.py"

MODULE = '''
from advisorchain import ToolCall, tool
from advisorchain.testing import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Desk:
    def __init__(self, city: str = "Bern", *, floors: int = 1) -> None:
        self.city, self.floors = city, floors

    @tool
    def where(self) -> str:
        """Say where the desk is."""
        return f"{self.city}, floor {self.floors}"


def desks(cities: list[str]) -> list[Desk]:
    return [Desk(city) for city in cities][:1]


def plain(text: str) -> str:
    """Give the text back."""
    return text


def asking(tool: str, a: int, b: int) -> ScriptedModel:
    return ScriptedModel([[ToolCall(tool, {"a": a, "b": b})], "It is done."])


every = [add, plain]
nothing = 42
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the user's own."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "config_tools.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    yield
    sys.modules.pop("config_tools", None)


def names(client: Any) -> list[str]:
    return [row["name"] for row in json.loads(client.explain("json"))["tools"]]


def test_tools_of_modules(load: Any) -> None:
    assert names(load(MODEL + 'tools = ["config_tools:add", "config_tools:plain"]')) == ["add", "plain"]
    assert names(load(MODEL + '[[tools]]\nuse = "config_tools:every"')) == ["add", "plain"]
    assert names(load(MODEL + '[[tools]]\nuse = "config_tools:Desk.where"\nenabled = false')) == []
    assert names(load(MODEL + '[[tools]]\nuse = "config_tools:desks"\ncities = ["Basel"]')) == ["where"]


async def test_a_class_is_made_with_its_options(load: Any) -> None:
    client = load(
        MODEL + '[[tools]]\nuse = "config_tools:Desk"\ncity = "Basel"\nfloors = 3\n[return_direct]\nwhere = true'
    )
    response = await client.call("Where is the desk?")
    assert response.text == "Basel, floor 3"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            'use = "config_tools:Desk"\nflors = 3',
            "tools[0].flors: 'config_tools:Desk' has no such option; did you mean 'floors'?",
        ),
        ('use = "config_tools:Desk"\nfloors = "3"', "tools[0].floors: must be a whole number."),
        ('use = "config_tools:ad"', "tools[0].use: config_tools has no 'ad'; did you mean 'add'?"),
        ('use = "config_tools"', "tools[0].use: There is no tools plugin 'config_tools'"),
        ('use = "no_such_module:x"', "tools[0].use: cannot import no_such_module: ModuleNotFoundError"),
        ('use = "config_tools:nothing"', "42"),
        ('use = "config_tools:desks"\ncities = [1]', "tools[0].cities[0]: must be a text."),
        ('use = "config_tools:desks"\ncities = "Basel"', "tools[0].cities: must be a list."),
    ],
)
def test_tools_that_are_wrong(entry: str, told: str, refused: Any) -> None:
    assert told in refused(f"{MODEL}[[tools]]\n{entry}\n")


def test_the_current_directory_is_not_importable(refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside.py").write_text("from advisorchain import tool")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    assert "cannot import beside: ModuleNotFoundError" in refused(MODEL + 'tools = ["beside:tool"]')


# MCP servers ---------------------------------------------------------------------------------------------------------


def server(name: str, *more: str) -> str:
    settings = json.dumps({"name": name, "habits": {}}).replace('"', '\\"')
    lines = [f"[mcp.{name}]", f'command = "{sys.executable}"', f'args = ["{RAW}", "{settings}"]', *more]
    return "\n".join(lines) + "\n"


async def test_a_server_of_a_file_answers_and_is_closed(load: Any) -> None:
    model = 'model = {use = "config_tools:asking", tool = "add", a = 2, b = 3}\n'
    client = load(model + server("alpha", "trusted = true", 'allow = ["a*"]'))
    async with client:
        response = await client.call("Add 2 and 3.")
        (fleet,) = client.mcp
        (status,) = fleet.status()
        assert status.state == "connected" and status.trusted and sorted(status.tools) == ["add", "again"]
        assert [message.text for message in response.new_messages[1:]] == ["5", "It is done."]
    assert fleet.status()[0].state in ("lost", "idle")


async def test_settings_of_servers(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "Bearer abc")
    client = load(
        MODEL + '[mcp.web]\nurl = "https://example.org/mcp"\nheaders = {Authorization = "${TOKEN}"}\ntrusted = true\n'
        'allow = ["search*"]\ndeny = "search_all"\nreturn_direct = true\ncall_timeout = 5\npin = "pins.json"\n'
        '[mcp.old]\nurl = "https://example.org/sse"\ntransport = "sse"\nprefix = "always"\npin = false\n'
        '[mcp.local]\ncommand = "python"\nargs = ["-V"]\nenv = {KEY = "${TOKEN}"}\ncwd = "sub"\nallow = []\n'
        '[mcp.off]\ncommand = "${NOT_SET}"\nenabled = false\n'
    )
    fleets = client.mcp
    assert [[each.name for each in fleet.servers] for fleet in fleets] == [["web"], ["old"], ["local"]]
    web, old, local = (fleet.servers[0] for fleet in fleets)
    assert (web.transport, web.headers, web.trusted, web.return_direct, web.call_timeout) == (
        "http", {"Authorization": "Bearer abc"}, True, True, 5,
    )  # fmt: skip
    assert isinstance(web.filter, ToolFilter)
    assert (web.filter.allow, web.filter.deny) == (("web/search*",), ("web/search_all",))
    assert fleets[0]._pinning.store.path == tmp_path / "pins.json"
    assert (old.transport, old.era, fleets[1]._prefix, fleets[1]._pinning) == ("sse", "legacy", "always", None)
    assert (local.command, local.args, local.env, local.cwd) == (
        "python",
        ("-V",),
        {"KEY": "Bearer abc"},
        tmp_path / "sub",
    )
    assert local.filter.default == "deny"


def test_servers_with_the_same_settings_are_one_fleet(load: Any) -> None:
    client = load(MODEL + server("alpha") + server("beta"))
    (fleet,) = client.mcp
    assert type(fleet) is McpTools and [each.name for each in fleet.servers] == ["alpha", "beta"]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[mcp.a]\ntrusted = true", "mcp.a: needs a command to start, or the url of a server."),
        ('[mcp.a]\ncommand = "x"\nurl = "https://x"', "mcp.a: has both command and url; leave one of them out."),
        ('[mcp.a]\nurl = "https://x"\nargs = ["x"]', "mcp.a.args: does not go with url."),
        ('[mcp.a]\ncommand = "x"\nheaders = {a = "b"}', "mcp.a.headers: does not go with command."),
        ('[mcp.a]\nurl = "ftp://x"', "mcp.a: McpServer.http takes a URL like https://host/mcp."),
        ('[mcp."a b"]\nurl = "https://x"', "mcp.'a b': An MCP server cannot be named 'a b'"),
        ('[mcp.a]\nurl = "https://x"\ncall_timeout = 0', "call_timeout must be over 0 seconds"),
        ('[mcp.a]\nurl = "https://x"\ncall_timeout = "5"', "mcp.a.call_timeout: must be a number."),
        ('[mcp.a]\nurl = "https://x"\noverrides = {x = {titel = 1}}', "overrides of 'x' has titel"),
        ('[mcp.a]\nurl = "${NOT_SET}"', "mcp.a.url: the environment variable NOT_SET is not set."),
        ('mcp = ["a"]', "mcp: a list of names goes into [chains.NAME] only"),
        ('[mcp.a]\nurl = "https://x"\npin = ""', "mcp.a.pin: must be true, false, or the name of a file for the pins."),
    ],
)
def test_servers_that_are_wrong(table: str, told: str, refused: Any) -> None:
    assert told in refused(f"{MODEL}{table}\n")


def test_servers_of_an_mcp_servers_file(
    load: Any, refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "abc")
    servers = {
        "files": {"command": "npx", "args": ["-y", "files"], "env": {"KEY": "${TOKEN}"}, "autoApprove": ["x"]},
        "web": {"type": "streamable-http", "url": "https://example.org/mcp", "headers": {"X-Key": "${TOKEN}"}},
        "off": {"command": "x", "disabled": True},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    client = load(MODEL + 'mcp_servers = "mcp.json"\n[mcp.web]\ntrusted = true\nallow = ["a*"]\n')
    (fleet,) = client.mcp
    files, web = fleet.servers
    assert (files.command, files.args, files.env, files.trusted) == ("npx", ("-y", "files"), {"KEY": "abc"}, False)
    assert (web.transport, web.url, web.headers, web.trusted) == ("http", servers["web"]["url"], {"X-Key": "abc"}, True)

    def told(data: Any) -> str:
        text = data if isinstance(data, str) else json.dumps(data)
        (tmp_path / "mcp.json").write_text(text)
        return str(refused(MODEL + 'mcp_servers = ["mcp.json"]\n'))

    assert "mcp.json is no JSON" in told("{")
    assert "mcp.json is no JSON" in told("[" * 100_000)
    assert 'mcp.json has no table "mcpServers".' in told([])
    assert "mcp.json: mcpServers.a: must be a table." in told({"mcpServers": {"a": 3}})
    assert "mcp.json: mcpServers.a.comand: unknown key; did you mean 'command'?" in told(
        {"mcpServers": {"a": {"comand": 1}}}
    )
    assert "mcp.json: mcpServers.a.args: must be a list." in told({"mcpServers": {"a": {"command": "x", "args": "y"}}})
    assert "mcpServers.a.type: must be stdio, http or sse." in told(
        {"mcpServers": {"a": {"url": "https://x", "type": "ws"}}}
    )
    (tmp_path / "mcp.json").unlink()
    assert "the file of MCP servers cannot be read" in refused(MODEL + 'mcp_servers = "mcp.json"\n')


def test_servers_of_the_top_level_in_named_chains(load: Any, refused: Any) -> None:
    text = (
        '[mcp.a]\nurl = "https://a.org/mcp"\n[mcp.b]\nurl = "https://b.org/mcp"\ntrusted = true\n'
        '[chains.none]\nmodel = "keyword"\n'
        '[chains.some]\nmodel = "keyword"\nmcp = ["b"]\n'
        '[chains.more]\nmodel = "keyword"\n[chains.more.mcp.a]\ntrusted = true\n[chains.more.mcp.c]\nurl = "https://c.org/x"\n'
    )
    assert load(text, "none").mcp == ()
    (some,) = load(text, "some").mcp
    assert [(each.name, each.trusted) for each in some.servers] == [("b", True)]
    (more,) = load(text, "more").mcp
    assert [(each.name, each.url, each.trusted) for each in more.servers] == [
        ("a", "https://a.org/mcp", True),
        ("c", "https://c.org/x", False),
    ]
    wrong = text.replace('mcp = ["b"]', 'mcp = ["other"]')
    assert refused(wrong, "some").endswith("chains.some.mcp.other: there is no MCP server 'other'; servers: a, b.")
