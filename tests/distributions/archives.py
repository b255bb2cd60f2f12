"""What must be in a wheel and in an sdist, and what must not: `problems` says what is wrong with a pair of them."""

from __future__ import annotations

import configparser
import email
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SDIST_HAS = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
SDIST_MAY_HAVE = {".gitignore", "CHANGELOG.md"}
"""Besides the package."""

_MACHINE_PATH = re.compile(rb"(?<![\w.}/-])/(?:" + b"|".join([b"root", b"work", b"home", b"Users"]) + rb")/")


def problems(
    directory: Path,
    project: Mapping[str, Any],
    wheel: Path,
    sdist: Path,
    from_sdist: Path,
    paths: Sequence[str] = (),
) -> list[str]:
    """Everything that is wrong with the built files of one distribution.

    Args:
        directory: its sources.
        project: the table ``project`` of its pyproject.
        wheel: built from the sources.
        sdist: built from the sources.
        from_sdist: the wheel that was built from the sdist.
        paths: of this machine, that no file may name, besides those that look like a user's.
    """
    package = re.sub(r"[-_.]+", "_", project["name"])
    files, packed = _files_of_wheel(wheel), _files_of_sdist(sdist)
    found = [*_of_wheel(directory, project, package, wheel, files), *_of_sdist(directory, project, package, packed)]
    for name, data in [*files.items(), *packed.items()]:
        if _MACHINE_PATH.search(data) or any(path.encode() in data for path in paths):
            found.append(f"{name} names a path of the machine")
    again = _files_of_wheel(from_sdist)
    found += [f"the wheel of the sdist differs: {name}" for name in _differing(files, again)]
    return [f"{project['name']}: {problem}" for problem in found]


def _of_wheel(
    directory: Path, project: Mapping[str, Any], package: str, wheel: Path, files: Mapping[str, bytes]
) -> Iterator[str]:
    about = f"{package}-{project['version']}.dist-info"
    if wheel.name != f"{package}-{project['version']}-py3-none-any.whl":
        yield f"the wheel is called {wheel.name}"
    yield from (f"the wheel has {name}" for name in files if PurePosixPath(name).parts[0] not in (package, about))
    yield from _of_package(directory / package, {name: files[name] for name in files if name.startswith(package + "/")})
    if files.get(f"{about}/licenses/LICENSE") != (directory / "LICENSE").read_bytes():
        yield "the wheel has no LICENSE, or another one"
    metadata = _parsed(files.get(f"{about}/METADATA", b""))
    yield from _of_metadata(directory, project, metadata)
    yield from _of_entry_points(project, files, files.get(f"{about}/entry_points.txt", b"").decode())


def _of_package(source: Path, files: Mapping[str, bytes]) -> Iterator[str]:
    if f"{source.name}/py.typed" not in files:
        yield "py.typed is missing: type checkers would not look at the types"
    written = {path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    expected = {path.relative_to(source.parent).as_posix(): path.read_bytes() for path in written}
    yield from (f"{name} is not what the sources have" for name in _differing(expected, files))


def _of_metadata(directory: Path, project: Mapping[str, Any], metadata: Message) -> Iterator[str]:
    expected = {
        "Name": project["name"],
        "Version": project["version"],
        "Summary": project["description"],
        "Requires-Python": project["requires-python"],
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
    }
    for key, value in expected.items():
        if metadata[key] != value:
            yield f"{key} is {metadata[key]!r}, not {value!r}"
    if metadata.get_payload() != (directory / "README.md").read_text(encoding="utf-8"):
        yield "the description is not the README"
    requires = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    without_extra = {str(each) for each in requires if "extra ==" not in str(each.marker)}
    if without_extra != {str(Requirement(line)) for line in project["dependencies"]}:
        yield f"Requires-Dist is {sorted(without_extra)}"
    if set(metadata.get_all("Provides-Extra", [])) != set(project.get("optional-dependencies", {})):
        yield f"Provides-Extra is {metadata.get_all('Provides-Extra')}"
    for each in requires:
        if each.url is not None:
            yield f"{each} is required from a URL"
        if not any(specifier.operator in (">=", "==", "~=") for specifier in each.specifier):
            yield f"{each} has no lowest version"
    yield from _of_requirement_on_core(project, requires)


def _of_requirement_on_core(project: Mapping[str, Any], requires: list[Requirement]) -> Iterator[str]:
    """A plugin works with the advisorchain of its day, and not with one whose interfaces may differ."""
    if project["name"] == "advisorchain":
        return
    on_core = [each for each in requires if canonicalize_name(each.name) == "advisorchain"]
    if len(on_core) != 1:
        yield f"it requires advisorchain {len(on_core)} times"
    for each in on_core:
        if not each.specifier.contains(project["version"]):
            yield f"{each} does not hold for the version that is built with it, {project['version']}"
        if each.specifier.contains("999"):
            yield f"{each} has no highest version"


def _of_entry_points(project: Mapping[str, Any], files: Mapping[str, bytes], text: str) -> Iterator[str]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    registered = {group: dict(parser[group]) for group in parser.sections()}
    expected = {group: dict(names) for group, names in project.get("entry-points", {}).items()}
    if "scripts" in project:
        expected["console_scripts"] = dict(project["scripts"])
    if registered != expected:
        yield f"the entry points are {registered}"
    if not any(group.startswith("advisorchain.") for group in registered):
        yield "it registers no plugin"
    for value in (value for names in registered.values() for value in names.values()):
        module = value.partition(":")[0].replace(".", "/")
        if f"{module}.py" not in files and f"{module}/__init__.py" not in files:
            yield f"the entry point {value} leads to no module of the wheel"


def _of_sdist(directory: Path, project: Mapping[str, Any], package: str, files: Mapping[str, bytes]) -> Iterator[str]:
    top = f"{package}-{project['version']}/"
    yield from (f"the sdist has {name}" for name in files if not name.startswith(top))
    inside = {name.removeprefix(top): data for name, data in files.items() if name.startswith(top)}
    yield from (f"the sdist has no {name}" for name in sorted(SDIST_HAS - inside.keys()))
    for name in inside:
        if name not in SDIST_HAS | SDIST_MAY_HAVE and not name.startswith(package + "/"):
            yield f"the sdist has {name}"
    yield from _of_metadata(directory, project, _parsed(inside.get("PKG-INFO", b"")))


def _files_of_wheel(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def _files_of_sdist(sdist: Path) -> dict[str, bytes]:
    files = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            if member.isdir():
                continue
            data = archive.extractfile(member) if member.isreg() else None
            files[member.name] = b"" if data is None else data.read()
            if not member.isreg():
                files[f"{member.name}: a link"] = b""
    return files


def _differing(expected: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """The names that only one of them has, or that have another content."""
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def _parsed(metadata: bytes) -> Message:
    return email.message_from_string(metadata.decode())
