"""Each rule about the built files finds what breaks it, and a right pair of files has no problems."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from archives import problems

PROJECT: dict[str, Any] = {
    "name": "advisorchain-acme",
    "version": "0.1.0",
    "description": "Acme.",
    "requires-python": ">=3.11",
    "dependencies": ["advisorchain>=0.1,<0.2"],
    "entry-points": {"advisorchain.advisors": {"acme": "advisorchain_acme:Acme"}},
}
METADATA = """\
Metadata-Version: 2.4
Name: advisorchain-acme
Version: 0.1.0
Summary: Acme.
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Requires-Dist: advisorchain<0.2,>=0.1
Description-Content-Type: text/markdown

# Acme
"""
SOURCES = {"LICENSE": "Free.", "README.md": "# Acme\n", "pyproject.toml": ""}
PACKAGE = {"advisorchain_acme/__init__.py": "class Acme: ...\n", "advisorchain_acme/py.typed": ""}
ABOUT = "advisorchain_acme-0.1.0.dist-info"
TOP = "advisorchain_acme-0.1.0"


class Built:
    """The files of a distribution; a test changes some of them before it asks for the problems."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.project = dict(PROJECT)
        self.wheel = {
            **PACKAGE,
            f"{ABOUT}/METADATA": METADATA,
            f"{ABOUT}/entry_points.txt": "[advisorchain.advisors]\nacme = advisorchain_acme:Acme\n",
            f"{ABOUT}/licenses/LICENSE": "Free.",
        }
        self.sdist = {f"{TOP}/{name}": text for name, text in {**SOURCES, **PACKAGE, "PKG-INFO": METADATA}.items()}
        self.from_sdist: dict[str, str] | None = None

    def problems(self) -> list[str]:
        source = self.directory / "source"
        for name, text in {**SOURCES, **PACKAGE}.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        wheel = self.directory / f"{TOP}-py3-none-any.whl"
        again = self.directory / "again.whl"
        for path, files in ((wheel, self.wheel), (again, self.wheel if self.from_sdist is None else self.from_sdist)):
            with zipfile.ZipFile(path, "w") as archive:
                for name, text in files.items():
                    archive.writestr(name, text)
        sdist = self.directory / f"{TOP}.tar.gz"
        with tarfile.open(sdist, "w:gz") as packed:
            for name, text in self.sdist.items():
                member = tarfile.TarInfo(name)
                member.size = len(text.encode())
                packed.addfile(member, io.BytesIO(text.encode()))
        return problems(source, self.project, wheel, sdist, again, ["/secret/place"])


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path)


def test_right_files_have_no_problems(built: Built) -> None:
    assert built.problems() == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("tests/test_acme.py", "", "the wheel has tests/test_acme.py"),
        ("advisorchain_acme/more.py", "", "advisorchain_acme/more.py is not what the sources have"),
        ("advisorchain_acme/py.typed", None, "py.typed is missing"),
        ("advisorchain_acme/__init__.py", "# /secret/place\n", "__init__.py names a path of the machine"),
        (f"{ABOUT}/licenses/LICENSE", None, "the wheel has no LICENSE"),
        (f"{ABOUT}/entry_points.txt", "", "it registers no plugin"),
        (f"{ABOUT}/METADATA", METADATA.replace("Version: 0.1.0", "Version: 0.2.0"), "Version is '0.2.0', not '0.1.0'"),
        (f"{ABOUT}/METADATA", METADATA.replace("# Acme", "# Else"), "the description is not the README"),
        (f"{ABOUT}/METADATA", METADATA.replace("<0.2,", ""), "advisorchain>=0.1 has no highest version"),
        (f"{ABOUT}/METADATA", METADATA.replace("0.2,>=0.1", "9,>=0.2"), "does not hold for the version"),
        (f"{ABOUT}/METADATA", METADATA.replace(",>=0.1", ""), "advisorchain<0.2 has no lowest version"),
        (f"{ABOUT}/METADATA", METADATA.replace("<0.2,>=0.1", " @ file:///x"), "is required from a URL"),
        (f"{ABOUT}/METADATA", METADATA.replace("Requires-Dist", "X"), "it requires advisorchain 0 times"),
    ],
)
def test_of_a_wheel(built: Built, name: str, text: str | None, says: str) -> None:
    built.wheel.pop(name, None)
    if text is not None:
        built.wheel[name] = text
    assert any(says in problem for problem in built.problems()), built.problems()


def test_an_entry_point_to_nothing(built: Built) -> None:
    built.project["entry-points"] = {"advisorchain.advisors": {"acme": "advisorchain_acme.gone:Acme"}}
    built.wheel[f"{ABOUT}/entry_points.txt"] = "[advisorchain.advisors]\nacme = advisorchain_acme.gone:Acme\n"
    (problem,) = built.problems()
    assert problem.endswith("the entry point advisorchain_acme.gone:Acme leads to no module of the wheel")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (f"{TOP}/uv.lock", "", "the sdist has uv.lock"),
        (f"{TOP}/tests/test_acme.py", "", "the sdist has tests/test_acme.py"),
        ("elsewhere.py", "", "the sdist has elsewhere.py"),
        (f"{TOP}/LICENSE", None, "the sdist has no LICENSE"),
        (f"{TOP}/README.md", "/secret/place", "README.md names a path of the machine"),
        (f"{TOP}/PKG-INFO", "Name: other\n\n", "Name is 'other'"),
    ],
)
def test_of_an_sdist(built: Built, name: str, text: str | None, says: str) -> None:
    built.sdist.pop(name, None)
    if text is not None:
        built.sdist[name] = text
    assert any(says in problem for problem in built.problems()), built.problems()


def test_the_wheel_of_the_sdist_is_the_same(built: Built) -> None:
    built.from_sdist = {name: text for name, text in built.wheel.items() if not name.endswith("py.typed")}
    assert built.problems() == [
        "advisorchain-acme: the wheel of the sdist differs: advisorchain_acme/py.typed",
    ]
