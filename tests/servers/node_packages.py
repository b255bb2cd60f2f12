"""Packages from npm for the tests, installed once per machine into a cache outside the repository.

The cache is ``$ADVISORCHAIN_TEST_CACHE``, or ``advisorchain-tests`` in the user's cache directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

INSTALLS_WITHIN = 300.0


def missing(what: str, why: str) -> Exception:
    """The outcome of a test whose server cannot run here: a skip that is told at the end, a failure in CI."""
    reason = f"{what} MISSING: {why}"
    if os.environ.get("CI") == "true":
        return pytest.fail.Exception(f"{reason} (CI=true)", pytrace=False)
    return pytest.skip.Exception(reason)


def cached(name: str) -> Path:
    """The place of this name in the cache, whose directory is made."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("ADVISORCHAIN_TEST_CACHE") or Path(home) / "advisorchain-tests")
    cache.mkdir(parents=True, exist_ok=True)
    return cache / name


def node_packages(name: str, *packages: str) -> Path:
    """The folder that holds these packages (``name@version``) in its ``node_modules``; installs them if it must.

    ``name`` names the folder: it must change when the packages do.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise missing("Node", f"the tests against {name} need node and npm on the PATH")
    folder = cached(name)
    if folder.is_dir():
        return folder
    cache = folder.parent
    # Installed beside its place and moved there: another process may be doing the same.
    fresh = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache))
    command = [npm, "install", "-E", "--no-audit", "--no-fund", *packages]
    done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, timeout=INSTALLS_WITHIN)
    if done.returncode != 0:
        shutil.rmtree(fresh, ignore_errors=True)
        raise missing(name, f"npm could not install it: {done.stderr.strip()[-500:]}")
    try:
        fresh.rename(folder)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder
