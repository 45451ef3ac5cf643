"""More than the server can take: too many requests, and clients that are too slow."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import requests

from tests.process.asking import OpenStream, counted, invocation, wait_until_ready
from tests.process.conftest import Start
from tests.process.server import ServerProcess

NARROW = {"MAX_CONCURRENT_REQUESTS": "1", "MAX_QUEUED_REQUESTS": "1"}


def wait_until_counted(server: ServerProcess, name: str, number: float) -> None:
    server.wait_until(lambda: counted(server.url, name) == number, f"{name} of {number}")


@pytest.mark.parametrize("path", ["/invocations", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_beyond_the_queue_callers_are_sent_away_at_once(
    start: Start, path: str, stream: bool
) -> None:
    server = start("works", **NARROW)
    url = wait_until_ready(server)
    with ThreadPoolExecutor() as pool:
        running = OpenStream(url, words=300)
        waiting = pool.submit(requests.post, f"{url}/invocations", json=invocation(3), timeout=60)
        wait_until_counted(server, "chat_server_requests_queued", 1)

        body = {**invocation(3), "model": "pretended", "stream": stream}
        if path != "/invocations":
            del body["custom_inputs"]
        refused = requests.post(url + path, json=body, timeout=10)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert "queue is full" in refused.text
        # Whoever looks after the server still gets through.
        for open_path in ("/health/ready", "/ping", "/v1/models", "/metrics"):
            assert requests.get(url + open_path, timeout=10).ok
        # A mistake is told without a place.
        bad = requests.post(f"{url}/invocations", json={"messages": []}, timeout=10)
        assert bad.status_code == 400

        assert running.rest()[-1] == "[DONE]"
        assert waiting.result().json()["messages"][0]["content"] == "word word word "
    assert counted(server.url, "chat_server_requests_rejected_total") == 1
    wait_until_counted(server, "chat_server_requests_running", 0)


def test_a_wait_that_takes_too_long_ends_in_words(start: Start) -> None:
    server = start("works", **NARROW, QUEUE_TIMEOUT="0.5")
    url = wait_until_ready(server)
    running = OpenStream(url, words=300)
    refused = requests.post(f"{url}/invocations", json=invocation(3), timeout=10)
    assert (refused.status_code, refused.json()["error_code"]) == (429, "REQUEST_LIMIT_EXCEEDED")
    assert "no turn came in time" in refused.text
    running.answer.close()
    wait_until_counted(server, "chat_server_requests_running", 0)
    assert requests.post(f"{url}/invocations", json=invocation(3), timeout=10).ok


def test_a_key_has_a_limit_of_its_own(start: Start) -> None:
    server = start("works", API_KEY="first", MAX_REQUESTS_PER_KEY="1", LOG_LEVEL="debug")
    url = wait_until_ready(server)
    key = {"Authorization": "Bearer first"}
    running = OpenStream(url, words=300, headers=key)
    for path in ("/invocations", "/v1/chat/completions"):
        body = {"messages": invocation(1)["messages"]}
        body |= {} if path == "/invocations" else {"model": "pretended"}
        refused = requests.post(url + path, json=body, headers=key, timeout=10)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert "This API key has 1 requests open" in refused.text
    assert running.rest()[-1] == "[DONE]"
    assert requests.post(f"{url}/invocations", json=invocation(1), headers=key, timeout=10).ok


def test_a_waiting_client_that_leaves_frees_its_turn(start: Start) -> None:
    server = start("works", **NARROW)
    url = wait_until_ready(server)
    running = OpenStream(url, words=300)
    with pytest.raises(requests.Timeout):
        requests.post(f"{url}/invocations", json=invocation(3), timeout=0.5)
    wait_until_counted(server, "chat_server_requests_queued", 0)
    running.answer.close()
    wait_until_counted(server, "chat_server_requests_running", 0)


def test_a_client_that_does_not_read_is_cut_off(start: Start) -> None:
    """It gets what the buffers hold; the engine's megabytes wait in the engine, not here."""
    server = start("pours", SLOW_CLIENT_TIMEOUT="2", KEEP_ALIVE_INTERVAL="1", **NARROW)
    url = wait_until_ready(server)
    gateway = psutil.Process(server.pid)
    before = gateway.memory_info().rss
    body = json.dumps(invocation(400, stream=True)).encode()
    with _connected(url) as client:
        client.sendall(_head("/invocations", len(body)) + body)
        wait_until_counted(server, "chat_server_requests_running", 1)
        most = before
        while counted(server.url, "chat_server_requests_running"):
            most = max(most, gateway.memory_info().rss)
            time.sleep(0.05)
    assert most - before < 100 * 2**20, "of 400 megabytes"
    assert "cut off: the client read nothing for 2 s" in server.text
    assert requests.post(f"{url}/invocations", json=invocation(1), timeout=10).ok


@pytest.mark.parametrize("sent", [b"", b"POST /invocations HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_client_that_does_not_finish_its_headers(start: Start, sent: bytes) -> None:
    server = start("works", RECEIVE_TIMEOUT="1")
    with _connected(wait_until_ready(server)) as client:
        client.sendall(sent)
        assert _all_of(client).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_does_not_finish_its_body(start: Start) -> None:
    server = start("works", RECEIVE_TIMEOUT="1")
    with _connected(wait_until_ready(server)) as client:
        client.sendall(_head("/invocations", 1000) + b'{"messages": ')
        answer = _all_of(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"The body did not arrive within 1 s." in answer


def test_a_kept_connection_may_be_idle_for_longer(start: Start) -> None:
    server = start("works", RECEIVE_TIMEOUT="0.5")
    url = wait_until_ready(server)
    with requests.Session() as session:
        for _ in range(2):
            assert session.get(f"{url}/ping", timeout=10).ok
            time.sleep(1)


def _connected(url: str) -> socket.socket:
    port = int(url.rsplit(":", 1)[1])
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def _head(path: str, length: int) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def _all_of(client: socket.socket) -> bytes:
    """Whatever comes until the server closes the connection."""
    parts = []
    while part := client.recv(2**16):
        parts.append(part)
    return b"".join(parts)
