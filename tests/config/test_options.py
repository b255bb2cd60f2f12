"""The second phase: every built-in advisor from a file, nested plugins, and options that are wrong."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from advisorchain import ChatClient, ConfigurationError
from advisorchain.plugins.built_in import BUILT_IN

MODEL = 'model = "keyword"\n'

MODULE = '''
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from functools import partial

from advisorchain import AssistantMessage, ChatResponse, ContextKey
from advisorchain.models import ChatModel, KeywordModel

TENANT = ContextKey[str]("tenant")


class Reasons(BaseModel):
    """Why a tool is called."""

    reason: str


def consume(values: Any) -> None:
    pass


def permits(tool: Any, request: Any) -> bool:
    return True


def is_busy(result: Any) -> str | None:
    return "transient" if result.content == "BUSY" else None


class Ordered:
    order = 300
    name = "ordered"

    def __init__(self) -> None:
        pass

    async def advise(self, request: Any, call_next: Any) -> Any:
        return await call_next(request)


class Bare(Ordered):
    def __init__(self, level) -> None:
        pass


class Settings(BaseModel):
    depth: int = Field(default=1, gt=0)
    secret: str = ""


class Modelled(Ordered):
    name = "modelled"
    config_model = Settings

    def __init__(self, depth: int = 1, secret: str = "") -> None:
        self.depth = depth
        if secret == "refuse-it":
            raise RuntimeError(f"{secret} is no secret")
        self.secret = secret


class Typed(Ordered):
    name = "typed"

    def __init__(
        self,
        *,
        share: Annotated[float, Field(ge=0, le=1)] = 0.5,
        mode: Literal["fast", "slow"] = "fast",
        names: tuple[str, ...] = (),
        judge: ChatModel | None = None,
        unknown: "NotThere | None" = None,
    ) -> None:
        self.share, self.mode, self.names, self.judge, self.unknown = share, mode, names, judge, unknown


def broken(text: str) -> Any:
    raise ValueError(f"I do not like {text}")


class Nameless(Ordered):
    def __init__(self, label: str) -> None:
        self.name = label
        self.order = label


GUARD = Ordered()
PARTIAL = partial(KeywordModel, name="partly")


async def answer(request: Any) -> Any:
    return ChatResponse(AssistantMessage(content="It is 42."))


def tells(headers: dict[str, list[str]]) -> Any:
    raise ValueError(headers)


def leaves() -> Any:
    raise GeneratorExit


async def asynchronous() -> Any:
    pass


not_callable = 3
'''


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the user's own."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "config_parts.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    yield
    sys.modules.pop("config_parts", None)


EVERY = {
    "audit": 'sink = {use = "json_lines", path = "audit.jsonl", fsync = "never"}\nvalues = true\n'
    'redact_fields = ["iban"]',
    "augmentation": 'model = "config_parts:Reasons"\nconsumer = "config_parts:consume"\ntools = ["get_*"]\nkeep = true',
    "budget": "max_cost = 1.5\nprices = {keyword = {input = 1, output = 2.5}}\n"
    'per = "conversation"\nstate = {use = "in_memory"}',
    "circuit_breaker": 'failures = 2\nwindow = [5, 30]\nmatchers = {crm = "config_parts:is_busy", other = false}',
    "memory": 'store = "in_memory"\nwindow = {use = "last_messages", messages = 40}\nhistory = "replace"',
    "model_fallback": 'models = ["keyword", {use = "keyword", name = "second"}]\non_partial = "restart"',
    "rate_limit": 'calls = 10\nper = 60\nby = "tool"\nnames = ["get_*"]\nscope = "config_parts:TENANT"',
    "retry": "model = {attempts = 4}\ntool = false\ntools = {book = false, budget = {attempts = 5, replay = true}}",
    "return_direct": 'policy = "any"\nhint = true\nerrors = true',
    "tool_cache": 'ttl = 60\nmax_entries = 10\ntools = ["get_*"]',
    "tool_calling": 'max_rounds = 5\nmax_seconds = false\non_limit = {rounds = "raise", tokens = "stop"}\n'
    "max_calls_per_tool = {search = 3}",
    "tool_fallback": 'contact = "the help desk"\nlanguage = "zh"\n'
    'templates = {zh = {denied = "不可以"}}\nguidance = false',
    "tool_filter": 'deny = ["admin"]\nallow = "config_parts:permits"',
    "tool_search": 'index = "regex"\nthreshold = 5\nalways = ["help"]\nstore = {use = "sqlite", path = "found.db"}',
}


@pytest.mark.parametrize("name", BUILT_IN["advisors"])
def test_every_built_in_advisor_from_a_file(name: str, load: Any) -> None:
    client = load(f'{MODEL}[[advisors]]\nuse = "{name}"\n{EVERY[name]}\n')
    assert name in [entry.name for entry in client.chain.entries]


def advisor(client: Any, name: str) -> Any:
    return next(entry.advisor for entry in client.chain.entries if entry.name == name)


def test_options_arrive_as_what_the_advisor_wants(load: Any, tmp_path: Path) -> None:
    from advisorchain.advisors import RetryPolicy
    from advisorchain.memory import LastMessages

    client = load(MODEL + "".join(f'[[advisors]]\nuse = "{name}"\n{EVERY[name]}\n' for name in EVERY))
    retry = advisor(client, "retry")
    assert retry.model.attempts == 4 and retry.tool.attempts == 1
    assert retry.tools["budget"] == RetryPolicy(attempts=5, wait=0.5, replay=True)
    assert advisor(client, "audit").sink.path == tmp_path / "audit.jsonl"
    assert advisor(client, "memory").window == LastMessages(40)
    assert advisor(client, "circuit_breaker").rules.window == (5, 30)
    names = [model.name for model in advisor(client, "model_fallback").models]
    assert names == ["keyword", "second"]
    module = sys.modules["config_parts"]
    assert advisor(client, "tool_filter").allow is module.permits


async def test_a_tool_index_is_made_anew_for_each_catalogue(load: Any) -> None:
    client = load(MODEL + '[[advisors]]\nuse = "tool_search"\nindex = {use = "bm25"}')
    indexes = advisor(client, "tool_search")._indexes
    first, second = indexes._make(), indexes._make()
    assert type(first).__name__ == "Bm25Index" and first is not second


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('use = "retry"\nmodle = 1', "advisors[0].modle: 'retry' has no such option; did you mean 'model'?"),
        ('use = "retry"\nmodel = {atempts = 1}', "advisors[0].model.atempts: 'model' has no such option; did you mean"),
        ('use = "retry"\nmodel = {attempts = "3"}', "advisors[0].model.attempts: must be a whole number."),
        ('use = "retry"\nmodel = {attempts = 0}', "cannot make 'retry': RetryPolicy: attempts must be an int"),
        ('use = "retry"\non_partial = "stop"', "advisors[0].on_partial: must be 'raise' or 'restart'."),
        ('use = "memory"', "advisors[0]: 'memory' needs the option store: a memory store"),
        ('use = "config_parts:Bare"', "advisors[0]: 'config_parts:Bare' needs the option level: any value."),
        ('use = "memory"\nstore = 3', "advisors[0].store: must be a memory store (its name, or a table with use"),
        (
            'use = "memory"\nstore = "sqlit"',
            "advisors[0].store: There is no memory store 'sqlit'; did you mean 'sqlite'?",
        ),
        (
            'use = "memory"\nstore = {use = "sqlite", pth = "a"}',
            "advisors[0].store.pth: 'sqlite' has no such option; did",
        ),
        (
            'use = "memory"\nstore = {use = "sqlite"}',
            "advisors[0].store: 'sqlite' needs the option path: a text or a path.",
        ),
        ('use = "memory"\nstore = "in_memory"\nwindow = {use = "last"}', "advisors[0].window: 'last': here goes"),
        (
            'use = "memory"\nstore = "in_memory"\nwindow = {use = "last_turns", turns = 0}',
            "LastTurns: turns must be",
        ),
        ('use = "circuit_breaker"\nwindow = [5]', "advisors[0].window: must be a list of 2 values."),
        ('use = "circuit_breaker"\nwindow = [5, "x"]', "advisors[0].window[1]: must be a number."),
        ('use = "model_fallback"\nmodels = "keyword"', "advisors[0].models: must be a list."),
        (
            'use = "model_fallback"\nmodels = ["keywrd"]',
            "advisors[0].models[0]: There is no model 'keywrd'; did you mean",
        ),
        (
            'use = "tool_filter"\nallow = "config_parts:permit"',
            "advisors[0].allow: config_parts has no 'permit'; did you",
        ),
        (
            'use = "tool_filter"\nallow = "no_such_module:x"',
            "advisors[0].allow: cannot import no_such_module: ModuleNotFou",
        ),
        (
            'use = "tool_calling"\non_limit = {round = "stop"}',
            "advisors[0].on_limit.round: is no key of this table: it must",
        ),
        (
            'use = "tool_calling"\nmax_rounds = true',
            "advisors[0].max_rounds: must be a whole number or false (for none).",
        ),
        ('use = "augmentation"\nmodel = 3', 'advisors[0].model: must be a function or class as "module:object".'),
        (
            'use = "config_parts:Modelled"\ndepht = 1',
            "advisors[0].depht: 'config_parts:Modelled' has no such option; did",
        ),
        ('use = "config_parts:Modelled"\ndepth = 0', "advisors[0].depth: Input should be greater than 0."),
        ('use = "config_parts:Modelled"\ndepth = "1"', "advisors[0].depth: must be a whole number."),
        ('use = "config_parts:Typed"\nshare = 2.0', "advisors[0].share: Input should be less than or equal to 1."),
        ('use = "config_parts:Typed"\nmode = "quick"', "advisors[0].mode: must be 'fast' or 'slow'."),
        ('use = "config_parts:Typed"\nnames = ["a", 3]', "advisors[0].names[1]: must be a text."),
        (
            'use = "config_parts:broken"\ntext = "that"',
            "cannot make 'config_parts:broken': ValueError: I do not like that.",
        ),
        ('use = "config_parts:asynchronous"', "its factory is async; it must be a plain function or a class"),
        (
            'use = "config_parts:not_callable"\na = 1',
            "'config_parts:not_callable' is of type int, which takes no options.",
        ),
        (
            'use = "config_parts:not_callable"',
            "2: advisors[0]: cannot use 'config_parts:not_callable': it is a int without advise or advise_tool and "
            "order, which is no advisor.",
        ),
        (
            'use = "os:getcwd"',
            "toml:2: advisors[0]: cannot make 'os:getcwd': it made a str without advise or advise_tool",
        ),
        (
            'use = "memory"\nstore = "os:environ"',
            "toml:4: advisors[0].store: cannot use 'os:environ': it is a _Environ",
        ),
        ('use = "config_parts:leaves"', "cannot make 'config_parts:leaves': GeneratorExit."),
    ],
)
def test_options_that_are_wrong(options: str, told: str, refused: Any) -> None:
    text = refused(f"{MODEL}[[advisors]]\n{options}\n")
    assert told in text
    assert "\n" not in text


def test_all_wrong_options_are_told_with_their_lines(refused: Any) -> None:
    told = refused(
        f'{MODEL}[[advisors]]\nuse = "retry"\non_partial = 3\nmodel = {{attempts = "3"}}\n'
        '[[advisors]]\nuse = "tool_cache"\nttl = "long"\n[memory]\nuse = "sqlite"\nbusy_timeout = "x"\n'
    )
    assert told.splitlines()[0] == "5 problems in advisorchain.toml:"
    lines = [line.split(": ")[:2] for line in told.splitlines()[1:]]
    assert lines == [
        ["advisorchain.toml:4", "advisors[0].on_partial"],
        ["advisorchain.toml:5", "advisors[0].model.attempts"],
        ["advisorchain.toml:8", "advisors[1].ttl"],
        ["advisorchain.toml:9", "memory"],
        ["advisorchain.toml:11", "memory.busy_timeout"],
    ]


def test_an_annotated_option_and_one_whose_type_is_not_there(load: Any) -> None:
    client = load(
        MODEL + '[[advisors]]\nuse = "config_parts:Typed"\nshare = 1\nmode = "slow"\nnames = ["a"]\njudge = "keyword"\n'
        "unknown = {a = [1]}"
    )
    typed = advisor(client, "typed")
    assert (typed.share, typed.mode, typed.names, typed.unknown) == (1, "slow", ("a",), {"a": [1]})
    assert typed.judge.name == "keyword"


def test_nested_entries_that_are_not_enabled(load: Any, refused: Any) -> None:
    text = (
        MODEL + '[[advisors]]\nuse = "model_fallback"\nmodels = [\n{use = "not_installed", key = "${NOT_SET}", '
        "enabled = false},\n"
        '{use = "keyword", name = "b", enabled = true},\n{use = "keyword", name = "c"}]\n'
    )
    models = advisor(load(text), "model_fallback").models
    assert [model.name for model in models] == ["b", "c"]
    assert refused(text.replace('"c"', "3")) == "advisorchain.toml:7: advisors[0].models[2].name: must be a text."
    none = load(MODEL + '[[advisors]]\nuse = "tool_search"\nstore = {use = "sqlite", path = "a", enabled = false}')
    assert advisor(none, "tool_search").store is None


async def test_objects_that_are_made_already(load: Any, refused: Any) -> None:
    client = load('model = "config_parts:answer"\n[[advisors]]\nuse = "config_parts:GUARD"\n')
    module = sys.modules["config_parts"]
    assert client.model is module.answer and advisor(client, "ordered") is module.GUARD
    assert (await client.call("Hello")).text == "It is 42."
    assert load('model = "config_parts:PARTIAL"').model.name == "partly"
    told = refused(MODEL + '[[advisors]]\nuse = "config_parts:GUARD"\norder = 3\n')
    assert told == "advisorchain.toml:4: advisors[0].order: 'config_parts:GUARD' is made already, with its order."


def test_order_and_name(load: Any) -> None:
    client = load(
        MODEL + '[[advisors]]\nuse = "retry"\norder = "rate_limit"\nname = "again"\n'
        '[[advisors]]\nuse = "config_parts:Ordered"\norder = 333\nname = "third"\n'
        '[[advisors]]\nuse = "config_parts:Ordered"\n'
    )
    orders = {entry.name: entry.order for entry in client.chain.entries}
    assert orders["again"] == 880 and orders["third"] == 333 and orders["ordered"] == 300


def test_memory_and_audit_in_short(load: Any, refused: Any, tmp_path: Path) -> None:
    client = load(
        MODEL + 'memory = "in_memory"\n[audit]\nuse = "json_lines"\npath = "deep/audit.jsonl"\nvalues = true\n'
        if (tmp_path / "deep").mkdir() is None
        else ""
    )
    assert advisor(client, "memory").order == 200
    assert advisor(client, "audit").sink.path == tmp_path / "deep" / "audit.jsonl"
    client = load(
        MODEL + '[memory]\nuse = "sqlite"\npath = "m.db"\ninside = true\nwindow = {use = "last_turns", turns = 3}'
    )
    assert advisor(client, "memory").order == 550
    assert advisor(client, "memory").store.path == tmp_path / "m.db"
    assert "inside = true is an order already" in refused(
        MODEL + '[memory]\nuse = "in_memory"\ninside = true\norder = 3'
    )
    assert "memory.inside: must be true or false." in refused(MODEL + '[memory]\nuse = "in_memory"\ninside = 3')
    assert "memory.pth: 'sqlite' has no such option; did you mean 'path'?" in refused(
        MODEL + '[memory]\nuse = "sqlite"\npath = "a"\npth = "b"'
    )
    load(MODEL + '[memory]\nuse = "sqlite"\nenabled = false')


def test_another_tool_loop(load: Any, refused: Any) -> None:
    client = load(MODEL + "tool_loop = {max_rounds = 3}")
    assert [entry.name for entry in client.chain.entries] == ["tool_calling", "return_direct"]
    client = load(MODEL + "tool_loop = false")
    assert client.chain.tool_loop is None
    load(MODEL + "tool_loop = true")
    assert "'retry' is no tool loop: it has no is_tool_loop = True." in refused(MODEL + 'tool_loop = "retry"')
    assert "tool_loop.use: There is no advisor 'tool_caling'; did you mean" in refused(
        MODEL + 'tool_loop = "tool_caling"'
    )
    assert "tool_loop: must be the name of a tool loop" in refused(MODEL + "tool_loop = 3")
    assert "tool_loop.max_round: 'tool_calling' has no such option; did" in refused(
        MODEL + "tool_loop = {max_round = 3}"
    )


def test_chat_options(load: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPERATURE", "0.25")
    client = load(MODEL + '[options]\ntemperature = "${TEMPERATURE}"\nstop = ["END"]\nextra = {a = 1}\n')
    assert client._options.temperature == 0.25 and client._options.stop == ("END",)
    assert refused(MODEL + "[options]\nseed = 1\ntemprature = 1").endswith(
        "toml:4: options.temprature: unknown option; did you mean 'temperature'? An option of one provider goes into "
        "extra = {…}."
    )
    assert refused(MODEL + "[options]\ntop_p = 3\nstop = [3]").splitlines()[1:] == [
        "advisorchain.toml:3: options.top_p: Input should be less than or equal to 1.",
        "advisorchain.toml:4: options.stop[0]: must be a text.",
    ]


def test_no_secret_is_in_a_traceback(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "sk-very-secret-1")
    for options in (
        'use = "config_parts:broken"\ntext = "${PASSWORD}"',
        'use = "config_parts:Nameless"\nlabel = "${PASSWORD}"',
    ):
        with pytest.raises(ConfigurationError) as caught:
            load(f"{MODEL}[[advisors]]\n{options}\n")
        trace = "".join(traceback.format_exception(caught.value))
        assert "sk-very" not in trace and "advisorchain.toml:" in trace
        assert caught.value.__context__ is None


def test_a_secret_reaches_what_takes_it(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain text is the name of a variable for the sink; a variable's value is the key itself."""
    monkeypatch.setenv("AUDIT_KEY", "0123456789abcdef0123456789abcdef")
    digests = []
    for key in ("AUDIT_KEY", "${AUDIT_KEY}"):
        client = load(MODEL + f'[audit]\nuse = "json_lines"\npath = "a.jsonl"\nkey = "{key}"\n')
        digests.append(advisor(client, "audit").sink.digest(b"data"))
        client.close()
    assert digests[0] == digests[1]


def test_telemetry(refused: Any, load: Any) -> None:
    from advisorchain.observers import global_observer, nothing

    assert load(MODEL + "telemetry = true")._watch is global_observer
    assert load(MODEL + "telemetry = false")._watch is nothing
    settings = load(MODEL + 'telemetry = {capture_content = "span", advisor_spans = "custom"}')._watch.__self__
    assert (settings.capture_content, settings.advisor_spans) == ("span", "custom")
    assert "telemetry.capture_contnt: 'telemetry' has no such option; did" in refused(
        MODEL + 'telemetry = {capture_contnt = "span"}'
    )
    assert "telemetry: must be true, false, or a table." in refused(MODEL + "telemetry = 3")


def test_telemetry_of_the_caller_counts_before_the_files(tmp_path: Any) -> None:
    from advisorchain.telemetry import Telemetry

    (tmp_path / "a.toml").write_text(MODEL + "telemetry = false")
    mine = Telemetry(capture_content="span")
    assert ChatClient.from_config(tmp_path / "a.toml", telemetry=mine)._watch.__self__ is mine


def test_no_secret_is_in_an_error(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "sk-very-secret-1")
    for options in (
        'use = "config_parts:broken"\ntext = "${PASSWORD}"',
        'use = "config_parts:broken"\ntext = "x"\nmore = "${PASSWORD}"',
        'use = "retry"\nmodel = {attempts = "${PASSWORD}"}',
        'use = "retry"\nmodel = "${PASSWORD}"',
        'use = "memory"\nstore = {use = "sqlite", path = "x", busy_timeout = "${PASSWORD}"}',
        'use = "memory"\nstore = "${PASSWORD}"',
        'use = "config_parts:Modelled"\ndepth = "${PASSWORD}"',
    ):
        assert "sk-very" not in refused(f"{MODEL}[[advisors]]\n{options}\n")
    told = refused(f'{MODEL}[[advisors]]\nuse = "config_parts:Modelled"\nsecret = "refuse-it"\n')
    assert "refuse-it" not in told and "(secret) is no secret" in told
    told = refused(f'{MODEL}[[advisors]]\nuse = "config_parts:tells"\nheaders = {{x = ["hunter22"]}}\n')
    assert told.endswith("cannot make 'config_parts:tells': ValueError: {'x': ['(secret)']}.")
    assert "cannot make 'config_parts:broken': ValueError: I do not like ${PASSWORD}." in refused(
        f'{MODEL}[[advisors]]\nuse = "config_parts:broken"\ntext = "${{PASSWORD}}"\n'
    )
