"""``advisorchain plugin new``: writes a distribution of a plugin that is complete, and whose tests pass."""

from __future__ import annotations

import keyword
import re
import shutil
import string
import sys
import tempfile
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..plugins.built_in import BUILT_IN, PUBLISHED
from ..plugins.metadata import MAX_NAME, normalized
from ..version import __version__
from .choice import UsageProblem
from .problems import one_line_errors

plugin_app = typer.Typer(name="plugin", help="Write a plugin of your own.", no_args_is_help=True, rich_markup_mode=None)


class Kind(Enum):
    """What a plugin may be."""

    advisor = "advisor"
    loop = "loop"
    model = "model"
    store = "store"
    index = "index"
    sink = "sink"
    tools = "tools"


class _About(NamedTuple):
    """What differs between the kinds, besides the code; ``$object`` and ``$plugin`` are filled in."""

    group: str
    what: str
    code: str
    file: str
    options: str = ""


_CHAIN = 'model = "keyword"\n\n'

_KINDS = {
    Kind.advisor: _About(
        "advisors",
        "an advisor",
        "client = ChatClient(KeywordModel(), advisors=[$object()])",
        _CHAIN + '[[advisors]]\nuse = "$plugin"',
    ),
    Kind.loop: _About(
        "advisors",
        "a tool loop",
        "client = ChatClient(KeywordModel(), advisors=[$object()])",
        _CHAIN.rstrip() + '\ntool_loop = "$plugin"',
    ),
    Kind.model: _About(
        "models",
        "a model",
        'client = ChatClient($object("default"))',
        'model = "$plugin:default"',
        " --option model=default --no-tools",
    ),
    Kind.store: _About(
        "memory_stores",
        "a memory store",
        'client = ChatClient(KeywordModel(), advisors=[MemoryAdvisor($object("conversations"))])',
        _CHAIN + '[memory]\nuse = "$plugin"\ndirectory = "conversations"',
        " --option 'directory=check-{new}'",
    ),
    Kind.index: _About(
        "tool_indexes",
        "a tool index",
        "client = ChatClient(KeywordModel(), advisors=[ToolSearchAdvisor($object)])",
        _CHAIN + '[[advisors]]\nuse = "tool_search"\nindex = "$plugin"',
    ),
    Kind.sink: _About(
        "audit_sinks",
        "an audit sink",
        'client = ChatClient(KeywordModel(), advisors=[AuditAdvisor($object("audit.jsonl"))])',
        _CHAIN + '[audit]\nuse = "$plugin"\npath = "audit.jsonl"',
        " --option path=check.jsonl",
    ),
    Kind.tools: _About(
        "tools",
        "tools",
        "client = ChatClient(KeywordModel(), tools=$object())",
        _CHAIN + '[[tools]]\nuse = "$plugin"',
    ),
}
_IMPORTS = {
    "ChatClient": "from advisorchain import ChatClient",
    "AuditAdvisor": "from advisorchain.advisors import AuditAdvisor",
    "MemoryAdvisor": "from advisorchain.advisors import MemoryAdvisor",
    "ToolSearchAdvisor": "from advisorchain.advisors import ToolSearchAdvisor",
    "KeywordModel": "from advisorchain.models import KeywordModel",
}

_OURS = [distribution for names in PUBLISHED.values() for distribution in names.values()]
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@plugin_app.callback()
def plugin() -> None:
    """Write a plugin of your own."""


@plugin_app.command("new")
def new_plugin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The distribution's name, for example acme-greeter.")],
    kind: Annotated[Kind, typer.Option("--kind", "-k", help="What it is.")],
    directory: Annotated[
        Path, typer.Option("--dir", "-d", metavar="DIR", help="Where its directory goes; default: here.")
    ] = Path("."),
) -> None:
    """Write a distribution: package, entry point, README, and tests that run the contract of its kind."""
    with one_line_errors():
        target = write_plugin(name, kind, directory)
        typer.echo(f"wrote {target}")
        typer.echo(f"next: cd {target} && pip install -U pip && pip install --editable . --group dev && pytest")


def write_plugin(name: str, kind: Kind, directory: Path) -> Path:
    """Write the distribution, all of it or nothing; returns its directory.

    Raises:
        UsageProblem: the name will not do, or there is such a directory already, or it cannot be made.
    """
    values = _values(name, kind)
    target = directory / name
    if target.exists() or target.is_symlink():
        raise UsageProblem(f"{target} is there already: choose another name, or another --dir.")
    package, module = values["package"], values["module"]
    written = {
        "pyproject.toml": _filled("pyproject.toml.txt", values),
        "README.md": _filled("README.md.txt", values),
        ".gitignore": _filled("gitignore.txt", values),
        f"{package}/__init__.py": _filled("init.txt", values),
        f"{package}/{module}.py": _filled(f"{kind.value}/module.txt", values),
        f"{package}/py.typed": "",
        f"tests/test_{module}.py": _filled(f"{kind.value}/test.txt", values),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=directory))
        try:
            for path, text in written.items():
                (beside / path).parent.mkdir(parents=True, exist_ok=True)
                (beside / path).write_text(text, encoding="utf-8", newline="\n")
            beside.chmod(0o755)  # a temporary directory is for its owner only
            beside.rename(target)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    except OSError as exc:
        raise UsageProblem(f"{target} cannot be written: {exc.strerror or exc}.") from None
    return target


def _values(name: str, kind: Kind) -> dict[str, str]:
    """What is filled into the templates."""
    package = re.sub(r"[-_.]+", "_", name).lower()
    if not _DISTRIBUTION.fullmatch(name) or len(name) > MAX_NAME:
        raise UsageProblem(
            f"{name!r} is no name of a distribution: {MAX_NAME} letters, digits, '-', '_' and '.' at most, a letter or "
            "digit first and last."
        )
    if not package.isidentifier() or keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise UsageProblem(f"{name!r} cannot be the name of a Python package: choose another one.")
    if normalized(name) in _OURS:
        raise UsageProblem(f"advisorchain has a plugin {normalized(name)} itself: choose another name.")
    # What is loaded is used by this program, and by whoever imports advisorchain.
    if package in sys.stdlib_module_names or package in sys.modules or package in ("advisorchain", "tests"):
        raise UsageProblem(f"{name!r} would hide the module {package!r}: choose another name.")
    about = _KINDS[kind]
    plugin = package.removeprefix("advisorchain_")
    if not plugin.isidentifier() or keyword.iskeyword(plugin):
        raise UsageProblem(f"{plugin!r} cannot be the name of a plugin: choose another one.")
    if plugin in BUILT_IN[about.group]:
        raise UsageProblem(f"advisorchain has a plugin {about.group}/{plugin} itself: choose another name.")
    words = [word.capitalize() for word in plugin.split("_") if word]
    ends = words[-1] == kind.value.capitalize()
    if kind is Kind.tools:
        thing = plugin if ends else f"{plugin}_tools"
    else:
        thing = "".join(words) + ("" if ends else kind.value.capitalize())
    major, minor = __version__.split(".")[:2]
    values = {
        "distribution": name,
        "package": package,
        "plugin": plugin,
        "object": thing,
        "module": "functions" if kind is Kind.tools else kind.value,  # never the name of what is in it
        "title": " ".join(words),
        "what": about.what,
        "group": about.group,
        "requirement": f">={major}.{minor},<{major}.{int(minor) + 1}",
        "check": about.options,
    }
    code = string.Template(about.code).substitute(values)
    imports = [line for word, line in _IMPORTS.items() if re.search(rf"\b{word}\b", code)]
    values["code"] = "\n".join([*imports, "", f"from {package} import {thing}", "", code])
    values["file"] = string.Template(about.file).substitute(values)
    return values


def _filled(template: str, values: dict[str, str]) -> str:
    text = files("advisorchain.cli").joinpath("templates", *template.split("/")).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)
