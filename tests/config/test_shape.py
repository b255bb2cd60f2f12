"""The first phase: unknown keys, wrong kinds of values, names that there are not; all of them in one error."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from advisorchain.config.plan import AUDIT_KEYS, MEMORY_KEYS


def test_all_problems_of_the_shape_are_told_in_the_order_of_the_file(refused: Any) -> None:
    told = refused(
        """
modell = "keyword"
model = 3
tool_loop = {use = 3}
[[advisors]]
use = "retry"
order = "retri"
name = 3
[[advisors]]
usee = "x"
enabled = "yes"
[mcp.a]
commandd = "x"
prefix = "sometimes"
[chains.x]
plugins = []
model = "a"
system = {fil = "a"}
"""
    )
    assert told.splitlines() == [
        "10 problems in advisorchain.toml:",
        "advisorchain.toml:2: modell: unknown key; did you mean 'model'?",
        "advisorchain.toml:3: model: must be a name, or a table with use.",
        "advisorchain.toml:7: advisors[0].order: there is no order 'retri'; did you mean 'retry'?",
        "advisorchain.toml:8: advisors[0].name: must be a text.",
        "advisorchain.toml:9: advisors[1].use: is missing.",
        'advisorchain.toml:11: advisors[1].enabled: must be true, false, or "${NAME}" of an environment variable.',
        "advisorchain.toml:13: mcp.a.commandd: unknown key; did you mean 'command'?",
        "advisorchain.toml:14: mcp.a.prefix: must be 'auto' or 'always' or 'none'.",
        "advisorchain.toml:16: chains.x.plugins: goes to the top of the file, it holds for every chain.",
        'advisorchain.toml:18: chains.x.system: must be a text, or {file = "prompt.md"}.',
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("system = 3", '2: system: must be a text, or {file = "prompt.md"}.'),
        (
            '[advisors]\nuse = "retry"',
            "2: advisors: must be a list of names, or of tables: each begins with [[advisors]].",
        ),
        (
            'chains.x.tools = "a:b"',
            "2: chains.x.tools: must be a list of names, or of tables: each begins with [[chains.x.tools]].",
        ),
        ("[mcp.orders]", "2: mcp.orders: needs a command to start, or the url of a server."),
        (
            "mcp = ['orders']",
            "2: mcp: a list of names goes into [chains.NAME] only; here it is one table for each server.",
        ),
    ],
)
def test_what_is_easily_mistaken(refused: Any, text: str, told: str) -> None:
    assert refused(f'model = "keyword"\n{text}') == f"advisorchain.toml:{told}"


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("advisors", '[[advisors]]\nuse = "retry"\n'),
        ("tools", '[[tools]]\nuse = "os:getcwd"\n'),
        ("mcp", '[mcp.a{}]\ncommand = "x"\n'),
        ("chains.x.advisors", '[[chains.x.advisors]]\nuse = "retry"\n'),
    ],
)
def test_so_many_entries_that_they_would_take_minutes(refused: Any, key: str, entry: str) -> None:
    start = time.process_time()
    told = refused('model = "keyword"\n' + "".join(entry.format(number) for number in range(20_000)))
    assert told == f"advisorchain.toml:2: {key}: has more than 1,000 entries."
    assert time.process_time() - start < 10


def test_so_many_servers_of_another_file(refused: Any, tmp_path: Path) -> None:
    servers = {f"a{number}": {"command": "x"} for number in range(1001)}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    told = refused('model = "keyword"\nmcp_servers = "mcp.json"')
    assert told == "advisorchain.toml:2: mcp_servers: gives more than 1,000 servers."


def test_at_most_twenty_problems_are_told(refused: Any) -> None:
    told = refused('model = "keyword"\n' + "".join(f"key_{number} = 1\n" for number in range(50)))
    assert told.splitlines()[0] == "50 problems in advisorchain.toml:"
    assert len(told.splitlines()) == 22
    assert told.splitlines()[-1] == "… and 30 more"


def test_names_that_there_are_not_are_told_together(refused: Any) -> None:
    told = refused(
        """
model = "keywrd"
tools = ["desk"]
[[advisors]]
use = "retri"
[[advisors]]
use = "no such:thing"
[memory]
use = "sqlit"
"""
    )
    assert "advisorchain.toml:2: model.use: There is no model 'keywrd'; did you mean 'keyword'?" in told
    assert "advisorchain.toml:5: advisors[0].use: There is no advisor 'retri'; did you mean 'retry'?" in told
    assert "advisors[1].use: 'no such:thing' is neither a name nor of the form module:object." in told
    assert "advisorchain.toml:9: memory.use: There is no memory store 'sqlit'; did you mean 'sqlite'?" in told
    assert "advisorchain.toml:3: tools[0].use: There is no tools plugin 'desk'" in told


def test_a_model_of_a_provider_that_there_is_not(refused: Any) -> None:
    assert refused('model = "opnai:gpt-5-mini"').endswith("did you mean 'openai'?")
    assert "names no model: write it behind the colon" in refused('model = "openai:"')


def test_a_chain_needs_a_model(refused: Any) -> None:
    assert refused("") == 'advisorchain.toml: model: is missing: write model = "keyword", or another one.'
    told = refused('[chains.a]\nmodel = "keyword"')
    assert told.endswith('model: is missing: write model = "keyword", or another one. The file has the chains a.')
    assert "cannot do without its model" in refused('model = {use = "keyword", enabled = false}')


def test_a_chain_that_there_is_not(refused: Any) -> None:
    told = refused('model = "keyword"\n[chains.support]\nmodel = "keyword"', chain="suport")
    assert told == "advisorchain.toml: there is no chain 'suport'; did you mean 'support'?"


def test_a_list_of_plugins_that_makes_no_sense(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told = refused('plugins = ["adviser/retry"]\nmodel = "keyword"')
    assert told.startswith("advisorchain.toml:1: plugins: ") and "did you mean 'advisors'?" in told
    assert "plugins: must be a list." in refused('plugins = "acme"\nmodel = "keyword"')
    monkeypatch.setenv("ADVISORCHAIN_PLUGINS", "*")
    told = refused('plugins = ["acme"]\nmodel = "keyword"')
    assert told.startswith("advisorchain.toml: ADVISORCHAIN_PLUGINS, '*': write the name of a distribution")


def test_keys_of_the_shortcuts_are_those_of_their_advisors() -> None:
    import inspect

    from advisorchain.advisors import AuditAdvisor, MemoryAdvisor

    own = {"self", "order", "name"}
    memory = set(inspect.signature(MemoryAdvisor.__init__).parameters) - own
    assert memory == MEMORY_KEYS | {"store"}
    audit = set(inspect.signature(AuditAdvisor.__init__).parameters) - own
    assert audit == AUDIT_KEYS | {"sink", "clock"}


# Environment ---------------------------------------------------------------------------------------------------------


def test_a_variable_fills_a_whole_field(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUNDS", "7")
    monkeypatch.setenv("MODEL", "keyword")
    monkeypatch.setenv("DIRECT", "no")
    client = load(
        'model = "${MODEL}"\ntool_loop = {concurrency = "${ROUNDS}"}\n[[advisors]]\n'
        'use = "retry"\nenabled = "${DIRECT}"'
    )
    loop = next(row.advisor for row in client.chain.entries if row.name == "tool_calling")
    assert loop.concurrency == 7
    assert "retry" not in [row.name for row in client.chain.entries]


def test_a_variable_that_is_not_set_is_named(refused: Any, load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    text = 'model = "keyword"\n[[advisors]]\nuse = "retry"\non_partial = "${NOT_SET}"\n'
    assert refused(text) == "advisorchain.toml:4: advisors[0].on_partial: the environment variable NOT_SET is not set."
    load(text + "enabled = false")  # nobody asks for it
    told = refused(text.replace("on_partial", "enabled"))
    assert told.endswith("the environment variable NOT_SET is not set; set it to true or false.")
    monkeypatch.setenv("NOT_SET", "perhaps")
    assert refused(text.replace("on_partial", "enabled")).endswith("NOT_SET must be true or false.")


def test_a_part_of_a_field_is_no_variable(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-token")
    told = refused('model = "keyword"\n[mcp.a]\nurl = "https://x"\nheaders = {Authorization = "Bearer ${TOKEN}"}')
    assert told == (
        "advisorchain.toml:4: mcp.a.headers.Authorization: ${TOKEN} must be the whole value; "
        "put the whole text into the environment variable."
    )


@pytest.mark.parametrize("value", ["${env:TOKEN}", "Bearer ${input:token}", "${TOKEN:-none}"])
def test_variables_as_other_programs_write_them_are_not_sent_as_they_are(
    refused: Any, tmp_path: Path, value: str
) -> None:
    servers = {"a": {"url": "https://x", "headers": {"Authorization": value}}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    told = refused('model = "keyword"\nmcp_servers = "mcp.json"')
    assert "headers.Authorization: ${" in told and 'is not understood here: write "${NAME}", the whole value.' in told


def test_an_entry_that_is_not_enabled_need_not_be_installed(load: Any) -> None:
    load('model = "keyword"\n[[advisors]]\nuse = "not_installed"\nenabled = false\nkey = "${NOT_SET_EITHER}"')
