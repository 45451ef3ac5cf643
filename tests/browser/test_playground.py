"""The playground in a browser, before an engine that says ``word`` as often as asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from tests.process.asking import counted, wait_until_ready
from tests.process.conftest import Start

RUNNING = "chat_server_requests_running"
INJECTED = (
    "<img src=x onerror=\"document.title='owned'\"> <script>document.title='owned'</script>\n\n"
    "```html\n<b onclick=alert(1)>code</b>\n```\n\n[link](javascript:alert(1)) **bold** `a<b`"
)


def say(page: Page, text: str, tokens: int = 5) -> None:
    page.locator("#parameters").evaluate("details => (details.open = true)")
    page.get_by_label("max_tokens").fill(str(tokens))
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def test_an_answer_is_streamed_and_outlives_a_reload(start: Start, page: Page) -> None:
    page.goto(wait_until_ready(start("works")))
    say(page, "Speak.")
    answer = page.locator(".message.assistant p")
    expect(answer).to_have_text(re.compile(r"^(word ?){5}$"))
    expect(page.locator("#figures")).to_contain_text("first text after")
    expect(page.locator("#send")).to_be_enabled()
    page.reload()
    expect(answer).to_have_text(re.compile(r"^(word ?){5}$"))
    expect(page.get_by_label("max_tokens")).to_have_value("5")
    page.get_by_role("button", name="New conversation").click()
    page.reload()
    expect(page.locator(".message")).to_have_count(0)


@pytest.mark.parametrize("how", ["button", "Escape"])
def test_stop_ends_the_request(start: Start, page: Page, how: str) -> None:
    url = wait_until_ready(start("works"))
    page.goto(url)
    say(page, "Speak.", tokens=2000)
    expect(page.locator(".message.assistant")).to_contain_text("word word")
    assert counted(url, RUNNING) == 1
    if how == "button":
        page.get_by_role("button", name="Stop").click()
    else:
        page.keyboard.press("Escape")
    expect(page.locator(".message.assistant")).to_contain_text("(stopped)")
    page.wait_for_timeout(500)
    assert counted(url, RUNNING) == 0


def test_what_a_model_writes_stays_text(start: Start, page: Page) -> None:
    def answer(route: Route) -> None:
        chunk = {"delta": {"role": "assistant", "content": INJECTED}, "finish_reason": "stop"}
        body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        route.fulfill(content_type="text/event-stream", body=body)

    page.route("**/invocations", answer)
    page.goto(wait_until_ready(start("works")))
    say(page, INJECTED)
    shown = page.locator(".message.assistant")
    expect(shown).to_contain_text("<img src=x onerror=")
    expect(shown.locator("pre code")).to_have_text("<b onclick=alert(1)>code</b>")
    expect(shown.locator("strong")).to_have_text("bold")
    assert page.locator("#messages :is(img, script, a, b)").count() == 0
    assert page.title() == "Chat"


def test_an_error_names_its_field(start: Start, page: Page) -> None:
    page.goto(wait_until_ready(start("works")))
    page.locator("#parameters").evaluate("details => (details.open = true)")
    page.get_by_label("top_p").fill("7")
    say(page, "Speak.")
    expect(page.get_by_role("alert")).to_contain_text("'custom_inputs.top_p' should be")
    expect(page.get_by_label("top_p")).to_be_focused()
    expect(page.get_by_label("top_p")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Message")).to_have_value("Speak.")


def test_the_key_is_asked_for_and_kept_in_the_tab(start: Start, page: Page) -> None:
    page.goto(wait_until_ready(start("works", API_KEY="secret")))
    say(page, "Speak.")
    page.get_by_label("API key").fill("secret")
    page.get_by_label("API key").press("Enter")
    expect(page.locator(".message.assistant")).to_contain_text("word word")
    assert page.evaluate("Object.values(sessionStorage)") == ["secret"]
    assert "secret" not in page.evaluate("JSON.stringify(localStorage)")


def test_it_shows_that_the_engine_loads(start: Start, page: Page) -> None:
    server = start("hangs-at-load")
    server.wait_for_text("loading the weights")
    page.goto(server.url)
    expect(page.get_by_role("status")).to_contain_text("Engine loading")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(start: Start, browser: Browser, scheme: str) -> None:
    # axe's own script is no part of the page, whose policy would keep it out.
    context = browser.new_context(bypass_csp=True, color_scheme=scheme)
    page = context.new_page()
    page.goto(wait_until_ready(start("works")))
    say(page, "Speak.")
    expect(page.locator("#figures")).to_contain_text("first text after")
    expect(page.locator("#send")).to_be_enabled()
    found = Axe().run(page).response["violations"]
    context.close()
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []


@pytest.mark.parametrize("form", ["curl", "Python", "mlflow.deployments"])
def test_a_copied_request_runs(start: Start, page: Page, form: str) -> None:
    page.goto(wait_until_ready(start("works", API_KEY="secret")))
    page.locator("#parameters").evaluate("details => (details.open = true)")
    page.get_by_label("max_tokens").fill("4")
    page.get_by_label("stop, one a line").fill('it\'s\n"$HOME"\n`x`')
    page.get_by_label("Message").fill('It\'s "so": \\n $HOME `x` 色')
    page.get_by_label("Copy this request as").select_option(form)
    page.get_by_role("button", name="Copy").click()
    text = page.locator("#copied").text_content() or ""
    assert "secret" not in text
    command = (
        ["bash", "-c", text] if form == "curl" else [sys.executable, "-W", "ignore", "-c", text]
    )
    environment = os.environ | {"API_KEY": "secret"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("word") == 4
