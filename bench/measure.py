"""One measurement: a scenario put to a peer, and what it took from the cores."""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.environments import CannotMeasureError, folder
from bench.peers.catalogue import Peer
from bench.processes import RunningServer, ScriptedEngine
from bench.scenarios import Scenario, body

_BUSY = 0.15  # share of a core used by others, above which it is worth to wait


@dataclass(frozen=True)
class Cores:
    """Who runs where: the server under test has a core of its own."""

    server: int
    engine: int
    client: int

    @classmethod
    def of_this_machine(cls) -> "Cores":
        """The first ones that we may use. With two, engine and client share the second.

        Raises:
            CannotMeasureError: there is only one.
        """
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) < 2:
            raise CannotMeasureError("two cores are needed, one for the server, one for the rig")
        return cls(usable[0], usable[1], usable[2] if len(usable) > 2 else usable[1])

    @property
    def rig(self) -> set[int]:
        """The cores of engine and client."""
        return {self.engine, self.client}


def _busy_seconds(cores: Cores) -> dict[int, float]:
    """Seconds that each core of the run has worked so far, for whomever."""
    times = psutil.cpu_times(percpu=True)
    return {
        core: sum(times[core][:8]) - times[core].idle - times[core].iowait
        for core in {cores.server, *cores.rig}
    }


def wait_for_quiet(cores: Cores, patience: float) -> None:
    """Until nobody uses the cores, or so many seconds have passed."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        before, began = _busy_seconds(cores), time.monotonic()
        time.sleep(0.4)
        after, took = _busy_seconds(cores), time.monotonic() - began
        if max(after[core] - before[core] for core in after) < _BUSY * took:
            return


@dataclass(frozen=True)
class Stand:
    """What all measurements of a run share."""

    rig: Path
    cores: Cores
    engine: ScriptedEngine
    key: str
    patience: float

    def _look(self, server: RunningServer | None, client: int) -> dict[str, Any]:
        times = psutil.Process(client).cpu_times()
        return {
            "at": time.monotonic(),
            "server": server.cpu() if server else 0.0,
            "rig": self.engine.cpu() + times.user + times.system,
            "cores": _busy_seconds(self.cores),
        }

    def measure(
        self, peer: Peer, server: RunningServer | None, scenario: Scenario
    ) -> dict[str, Any]:
        """One row of the results.

        Without a server it is the engine itself that is measured.

        Returns:
            What the client saw (bench/rig/load.c), and as shares of a core ``server_share``,
            ``rig_share`` (engine and client) and ``disturbance``: the most that anybody else used
            of one of the cores. ``rss`` and ``rss_idle`` are in MB.
        """
        self.engine.behave(**scenario.engine)
        request = folder("run") / "request.json"
        request.write_bytes(body(peer.speaks, scenario.stream, scenario.long_prompt))
        wait_for_quiet(self.cores, self.patience)
        port = server.port if server else self.engine.port
        numbers = (scenario.connections, scenario.seconds, scenario.warm_up)
        tokens = scenario.tokens if scenario.stream else 0
        with subprocess.Popen(
            [
                *("taskset", "-c", str(self.cores.client), str(self.rig / "load"), str(port)),
                *(peer.path, str(request), self.key, *map(str, numbers), str(tokens)),
            ],
            stdout=subprocess.PIPE,
        ) as client:
            time.sleep(scenario.warm_up)
            before = self._look(server, client.pid)
            time.sleep(scenario.seconds - 0.05)
            after = self._look(server, client.pid)
            rss = server.rss() if server else None
            out, _ = client.communicate()
        if client.returncode:
            raise CannotMeasureError("the load client failed, or got no CPU")
        return {
            "peer": peer.name,
            "scenario": scenario.name,
            "connections": scenario.connections,
            **json.loads(out),
            **self._shares(before, after),
            "rss": rss,
            "rss_idle": server.rss_idle if server else None,
        }

    def _shares(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
        took = after["at"] - before["at"]
        server, rig = after["server"] - before["server"], after["rig"] - before["rig"]
        busy = {core: after["cores"][core] - before["cores"][core] for core in after["cores"]}
        others = (
            busy[self.cores.server] - server,
            sum(busy[core] for core in self.cores.rig) - rig,
        )
        return {
            "server_share": server / took,
            "rig_share": rig / took / len(self.cores.rig),
            "disturbance": max(0.0, *others) / took,
        }
