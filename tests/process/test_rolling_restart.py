"""Two servers behind a balancer that looks at /health/ready: restarting both loses nothing."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import requests

from tests.process.asking import invocation, wait_until_ready
from tests.process.conftest import Start
from tests.wrapper.sandbox import free_port

CLIENTS = 4
DELAY = 2.0


class Balancer:
    """Gives each request to a server that was ready when it last looked."""

    def __init__(self, *ports: int) -> None:
        self._urls = [f"http://127.0.0.1:{port}" for port in ports]
        self._ready: list[str] = []
        self._turn = itertools.count()
        self._looking = threading.Thread(target=self._look)
        self.stopping = threading.Event()

    def __enter__(self) -> Balancer:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._looking.join()

    def ask(self) -> requests.Response:
        """The answer of one of them."""
        ready = self._ready
        url = ready[next(self._turn) % len(ready)]
        return requests.post(f"{url}/invocations", json=invocation(5), timeout=30)

    def _look(self) -> None:
        while not self.stopping.wait(0.1):
            self._ready = [url for url in self._urls if self._is_ready(url)]

    def _is_ready(self, url: str) -> bool:
        try:
            return requests.get(f"{url}/health/ready", timeout=5).ok
        except requests.ConnectionError:
            return False


def test_no_request_is_lost(start: Start) -> None:
    ports = [free_port(), free_port()]
    servers = [start("works", PORT=str(port), SHUTDOWN_DELAY=str(DELAY)) for port in ports]
    for server in servers:
        wait_until_ready(server)
    done = threading.Event()

    def client(balancer: Balancer) -> list[int]:
        statuses = []
        while not done.is_set():
            statuses.append(balancer.ask().status_code)
        return statuses

    with Balancer(*ports) as balancer, ThreadPoolExecutor(CLIENTS) as pool:
        time.sleep(0.5)  # the balancer has looked
        asking = [pool.submit(client, balancer) for _ in range(CLIENTS)]
        try:
            for server, port in zip(servers, ports, strict=True):
                server.send(signal.SIGTERM)
                assert server.wait_for_end() == 0
                wait_until_ready(start("works", PORT=str(port), SHUTDOWN_DELAY=str(DELAY)))
                time.sleep(0.5)
        finally:
            done.set()
        statuses = [status for one in asking for status in one.result()]
    assert len(statuses) > 50
    assert set(statuses) == {200}
