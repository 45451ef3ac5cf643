"""The playground before the real engine: what a newcomer sees first."""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.test_playground import say
from tests.e2e.engine import RealEngine
from tests.process.server import ServerProcess


def test_a_real_answer_with_its_figures(server: ServerProcess, page: Page) -> None:
    page.goto(server.url)
    page.locator("#parameters").evaluate("details => (details.open = true)")
    page.get_by_label("temperature").fill("0")
    say(page, "What is the capital of France?", tokens=40)
    answer = page.locator(".message.assistant")
    expect(answer).to_contain_text("Paris", timeout=60_000)
    expect(page.locator("#figures")).to_have_text(
        re.compile(r"first text after [\d.]+ s · \d+ tokens · [\d.]+ tokens/s"), timeout=60_000
    )


def test_stop_frees_the_engine(server: ServerProcess, engine: RealEngine, page: Page) -> None:
    page.goto(server.url)
    aborted = engine.aborted
    say(page, "Count from one to a thousand, in words.", tokens=4000)
    expect(page.locator(".message.assistant p").first).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Stop").click()
    server.wait_until(lambda: engine.running == 0, "idle engine")
    server.wait_until(lambda: engine.aborted > aborted, "aborted request")


def test_on_a_phone_dark_and_light(server: ServerProcess, browser: Browser) -> None:
    """Nothing is wider than the screen. ``SCREENSHOTS=FOLDER`` keeps what was seen."""
    for name, width, height, scheme in (
        ("playground-light", 900, 700, "light"),
        ("playground-dark", 900, 700, "dark"),
        ("playground-phone", 390, 780, "light"),
    ):
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        page = context.new_page()
        page.goto(server.url)
        page.locator("#parameters").evaluate("details => (details.open = true)")
        page.get_by_label("temperature").fill("0")
        say(page, "Name three colours.", tokens=80)
        expect(page.locator("#figures")).to_contain_text("tokens/s", timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if folder := os.environ.get("SCREENSHOTS"):
            page.locator("#parameters").evaluate("details => (details.open = false)")
            page.screenshot(path=Path(folder) / f"{name}.png")
        context.close()
