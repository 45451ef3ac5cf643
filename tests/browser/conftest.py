"""A headless Chromium, and servers for it to visit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.conftest import START, engine, server
from tests.process.conftest import start

__all__ = ["engine", "server", "start"]

NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test with the real engine comes first waits for it."""
    for item in items:
        if item.path.name == "test_real_engine.py":
            item.add_marker(pytest.mark.timeout(START + 60))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The system's Chromium; closed before tests with an event loop of their own come."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on PATH; on Debian and Ubuntu: apt-get install chromium")
    with sync_playwright() as playwright:
        # Without a sandbox of its own, which root and containers can't have: it sees only our page.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new tab with nothing stored. What the page complains of fails the test."""
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []
