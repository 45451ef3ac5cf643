"""Who may ask, and what nobody gets to see."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from tests.process.asking import invocation, wait_until_ready
from tests.process.conftest import Start

SECRET = "the-launch-code-is-7331"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])
def test_open_to_others_without_a_key_it_does_not_start(
    start: Start, address: str, tmp_path: Path
) -> None:
    record = tmp_path / "calls"
    server = start("works", HOST="127.0.0.1", PUBLISHED_ON=address, FAKE_ENGINE_RECORD=str(record))
    assert server.wait_for_end() == 2
    assert f"others can reach {address}" in server.text
    for way_out in ("API_KEY", "127.0.0.1", "ALLOW_NO_API_KEY"):
        assert way_out in server.text
    assert not record.exists(), "the engine was called all the same"


def test_host_counts_where_nothing_else_is_said(start: Start) -> None:
    server = start("works", HOST="0.0.0.0")
    assert server.wait_for_end() == 2
    assert "others can reach 0.0.0.0" in server.text


def test_forced_to_be_open_it_warns(start: Start) -> None:
    server = start("works", PUBLISHED_ON="0.0.0.0", ALLOW_NO_API_KEY="true")
    wait_until_ready(server)
    assert "whoever reaches 0.0.0.0 can use this server" in server.text


def test_with_a_key_it_may_be_open(start: Start) -> None:
    server = start("works", PUBLISHED_ON="0.0.0.0", API_KEY="k")
    url = wait_until_ready(server)
    assert requests.get(f"{url}/v1/models", timeout=10).status_code == 401
    headers = {"Authorization": "Bearer k"}
    assert requests.get(f"{url}/v1/models", headers=headers, timeout=10).ok


def test_keys_of_a_file_change_while_it_runs(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("old\n")
    server = start("works", API_KEY_FILE=str(file))
    url = wait_until_ready(server)

    def status(key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return requests.get(f"{url}/v1/models", headers=headers, timeout=10).status_code

    assert (status("old"), status("new")) == (200, 401)
    file.write_text("new\n")
    server.wait_until(lambda: status("new") == 200, "new key")
    assert status("old") == 401


def test_a_key_file_that_is_not_there(start: Start, tmp_path: Path) -> None:
    server = start("works", API_KEY_FILE=str(tmp_path / "none"))
    assert server.wait_for_end() == 2
    assert "API_KEY_FILE" in server.text
    assert "Traceback" not in server.text


@pytest.mark.parametrize("level", ["info", "debug"])
def test_no_words_of_callers_are_printed(start: Start, level: str) -> None:
    server = start("works", LOG_LEVEL=level, API_KEY="key-" + SECRET, ENGINE_MAX_RESTARTS="0")
    url = wait_until_ready(server)
    headers = {"Authorization": "Bearer key-" + SECRET}
    message = {"role": "user", "content": SECRET}
    image = {"type": "image_url", "image_url": {"url": f"http://{SECRET}/"}}
    bodies = [
        {"messages": [message]},
        {"messages": [message], "stream": True},
        {"messages": [{**message, "role": SECRET}]},
        {"messages": [message], "custom_inputs": {SECRET: SECRET}},
        {"messages": [message], SECRET: 1},
        {SECRET: SECRET},
        {"model": SECRET, "messages": [message]},
        {"model": "pretended", "messages": [message], "stream": SECRET},
        {"model": "pretended", "messages": [{"role": "user", "content": [image]}]},
    ]
    for path in ("/invocations", "/v1/chat/completions", "/nowhere"):
        for body in bodies:
            requests.post(url + path, json=body, headers=headers, timeout=30)
        requests.post(url + path, data=SECRET, headers=headers, timeout=30)
    requests.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {SECRET}"}, timeout=10)
    broken = requests.post(
        f"{url}/invocations",
        json={**invocation(500, stream=True), "messages": [message]},
        headers=headers,
        stream=True,
        timeout=30,
    )
    next(broken.iter_lines())
    server.engine().kill()
    broken.close()
    server.wait_for_end()
    assert "POST /invocations" in server.text
    assert SECRET not in server.text


def test_remote_media_are_refused(start: Start) -> None:
    url = wait_until_ready(start("works"))
    part = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest/"}}
    body = {"model": "pretended", "messages": [{"role": "user", "content": [part]}]}
    answer = requests.post(f"{url}/v1/chat/completions", json=body, timeout=10)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[0].content[0].image_url.url"
