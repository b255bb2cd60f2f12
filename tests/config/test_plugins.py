"""Plugins that are named, and plugins that are not: those are never imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed_plugins import install

GOOD = """
from advisorchain import Advisor

class Shout(Advisor):
    order = 240
    def __init__(self, *, mark: str = "!", times: int = 1) -> None:
        self.mark, self.times = mark, times
    async def advise(self, request, call_next):
        response = await call_next(request)
        return response.replace(message=response.message.model_copy(update={"content": response.text + self.mark}))

def tools(prefix: str = ""):
    def greet(name: str) -> str:
        "Greet somebody by name."
        return f"{prefix}Hello {name}"
    return [greet]
"""
POISON = "import os, sys; print('POISONED', file=sys.stderr); os._exit(99)"

PROGRAM = """
import sys
sys.path.insert(0, {site!r})
from advisorchain import ChatClient, ConfigurationError
try:
    client = ChatClient.from_config(sys.argv[1])
except ConfigurationError as exc:
    print(exc)
    sys.exit(3)
print(client.explain())
with client:
    print(client.call_sync("Hello there").text)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Installed: a good plugin, and poisoned ones in every group."""
    site = tmp_path / "site"
    names = {"advisors": {"shout": "acme_shout:Shout"}, "tools": {"greeting": "acme_shout:tools"}}
    install(site, "acme-shout", names, modules={"acme_shout": GOOD})
    groups = ["advisors", "models", "memory_stores", "tool_indexes", "tools", "audit_sinks"]
    poison = {group: {"poison": "acme_poison:Poison"} for group in groups}
    install(site, "acme-poison", poison, modules={"acme_poison": POISON})
    return site


def started(site: Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    file = site.parent / "advisorchain.toml"
    file.write_text(text)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(site=str(site)), str(file)],
        env={**os.environ, **variables},
        cwd=site.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_plugin_that_is_named_is_used_and_no_other_is_imported(site: Path) -> None:
    done = started(
        site,
        'model = "keyword"\n[[tools]]\nuse = "greeting"\nprefix = "Oh, "\n[[advisors]]\nuse = "shout"\nmark = " Hey!"\n'
        '[[advisors]]\nuse = "poison"\nenabled = false\n',
    )
    assert done.returncode == 0, done.stderr
    assert "  240  shout" in done.stdout and "greet" in done.stdout
    assert done.stdout.rstrip().endswith(" Hey!")
    assert "POISONED" not in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "#" * 10_000_000,
        "a = " + "[" * 200_000,
        'model = "keyword"\nadvisors = "poison"',
        'model = "keyword"\n[[advisors]]\nuse = "poisson"',
        'model = "keyword"\n[[advisors]]\nuse = "shout"\nmrak = "!"',
        'model = "keyword"\n[[advisors]]\nuse = "shout"\ntimes = "many"',
        'model = "poisonn"',
        'model = "keyword"\nunknown = 1\n[[advisors]]\nuse = "poison"',
        'model = "keyword"\n[[advisors]]\nuse = "poison"\nkey = "${NOT_SET_HERE}"',
        'model = "keyword"\n[memory]\nuse = "poisonous"',
        'model = "keyword"\ntools = ["poison"]\n[[advisors]]\nuse = "shout"\nmrak = "!"',
        'model = "keyword"\ntools = ["acme_poison:x"]\n[[advisors]]\nuse = "shout"\ntimes = 1.5',
    ],
    ids=lambda text: text[-40:],
)
def test_a_careless_file_is_refused_before_anything_else_is_imported(site: Path, text: str) -> None:
    done = started(site, text)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "POISONED" not in done.stderr and "Traceback" not in done.stderr
    assert "advisorchain.toml" in done.stdout


def test_a_plugin_that_is_named_and_broken_is_told(site: Path) -> None:
    broken = {"advisors": {"lazy": "acme_lazy:Lazy", "none": "acme_lazy:Nothing", "list": "acme_lazy:make"}}
    install(
        site,
        "acme-lazy",
        broken,
        modules={
            "acme_lazy": "class Lazy:\n    def __init__(self):\n        raise OSError('no disk')\ndef make(): return []"
        },
    )
    for name, told in (
        ("lazy", "advisorchain.toml:2: advisors[0]: cannot make 'lazy': OSError: no disk."),
        ("none", "has no attribute 'Nothing'"),
        ("list", "it made a list without advise or advise_tool and order, which is no advisor"),
    ):
        done = started(site, f'model = "keyword"\n[[advisors]]\nuse = "{name}"')
        assert (done.returncode, told in done.stdout) == (3, True), done.stdout + done.stderr


def test_the_file_and_the_environment_say_which_plugins_may_be_used(site: Path) -> None:
    text = 'model = "keyword"\n[[advisors]]\nuse = "shout"\n'
    assert started(site, f'plugins = ["acme-shout"]\n{text}').returncode == 0
    assert started(site, f'plugins = ["advisors/shout"]\n{text}').returncode == 0
    for allowed, variables in (
        ('plugins = ["acme-other"]\n', {}),
        ("plugins = []\n", {}),
        ("", {"ADVISORCHAIN_PLUGINS": "acme-other"}),
        ('plugins = ["acme-shout"]\n', {"ADVISORCHAIN_PLUGINS": "none"}),
    ):
        done = started(site, allowed + text, **variables)
        assert done.returncode == 3 and "advisors[0].use: " in done.stdout and "not allowed" in done.stdout, done.stdout
    built_in = started(site, 'plugins = []\nmodel = "keyword"\n[[advisors]]\nuse = "retry"\n')
    assert built_in.returncode == 0, built_in.stdout


def test_what_an_allowed_plugin_asks_for_by_name_must_be_allowed_too(site: Path) -> None:
    text = 'model = "keyword"\n[[advisors]]\nuse = "tool_search"\nindex = "hybrid"\n'  # of bm25 and vector
    done = started(site, f"plugins = []\n{text}")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "tool_indexes/vector" in done.stdout and "not allowed" in done.stdout
