"""A Chromium of this machine for tests of pages; without one they are skipped, on CI they fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def chromium_path() -> str:
    """Where it is; skips the test if it is nowhere."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = "Chromium is missing: install Debian's chromium, or Google Chrome"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """A headless one. Without its sandbox: it shows pages of ours only, and as root it has none."""
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page from disk, and everything that should not have happened while it was open."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("popup", lambda popup: self.problems.append(f"popup: {popup.url}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.blocked: list[str] = []
        self.page.on(
            "requestfailed", lambda request: self.blocked.append(request.url) if request.failure == "csp" else None
        )
        self.page.goto(path.as_uri())
