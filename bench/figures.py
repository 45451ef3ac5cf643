"""From measurements to figures: which ones to trust, and what a peer adds to the engine."""

import statistics
from collections import defaultdict
from typing import Any

from bench.peers.catalogue import PEERS

Row = dict[str, Any]

QUIET = 0.10  # share of a core used by others, up to which a measurement counts as undisturbed
_SATURATED = 0.9  # of a core
_OPEN = 0.9  # of the connections


def quiet_runs(rows: list[Row]) -> list[Row]:
    """The undisturbed ones; where there is none, the three least disturbed."""
    ordered = sorted(rows, key=lambda row: float(row["disturbance"]))
    return [row for row in ordered if row["disturbance"] <= QUIET] or ordered[:3]


class Figures:
    """The figures of a run, each a median of quiet measurements; None where there is none."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self._by_cell: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in rows:
            self._by_cell[row["peer"], row["scenario"]].append(row)

    @property
    def peers(self) -> list[str]:
        """Who was measured, in the order of the catalogue."""
        measured = {peer for peer, _ in self._by_cell}
        return [peer.name for peer in PEERS if peer.name in measured]

    def used(self, peer: str, scenario: str) -> list[Row]:
        """The measurements that a figure is made of."""
        return quiet_runs(self._by_cell.get((peer, scenario), []))

    def value(self, peer: str, scenario: str, name: str) -> float | None:
        """A median. ``a.b`` is the field b of the field a."""
        values = [
            value for row in self.used(peer, scenario) if (value := _field(row, name)) is not None
        ]
        return statistics.median(values) if values else None

    def added(self, peer: str, scenario: str, name: str) -> float | None:
        """How much more than without a gateway. Noise can make it less than nothing."""
        value, base = self.value(peer, scenario, name), self.value("direct", scenario, name)
        return None if value is None or base is None else value - base

    def per_core(self, peer: str, scenario: str, name: str) -> float | None:
        """A rate, divided by the share of its core that the server used for it."""
        rates = [
            row[name] / row["server_share"]
            for row in self.used(peer, scenario)
            if row["server_share"] > 0
        ]
        return statistics.median(rates) if rates else None

    def ratio(self, scenario: str, name: str, peer: str, to: str) -> float | None:
        """One peer's figure divided by another's."""
        above, below = self.value(peer, scenario, name), self.value(to, scenario, name)
        return above / below if above is not None and below else None

    def rss_idle(self, peer: str) -> float | None:
        """MB after the first answer."""
        return self.value(peer, "open512", "rss_idle")

    def rss_per_stream(self, peer: str) -> float | None:
        """KB more for each open stream, as soon as nearly all of them were open for once.

        Not a median: later, memory that was kept hides what a stream needs.
        """
        for row in self._by_cell.get((peer, "open512"), []):
            if row["rss"] is not None and row["open_streams"] > _OPEN * row["connections"]:
                return float(1000 * (row["rss"] - row["rss_idle"]) / row["open_streams"])
        return None

    def errors(self, peer: str) -> int:
        """Answers that were no good, in all measurements."""
        return sum(row["errors"] for row in self.rows if row["peer"] == peer)

    def held_by_the_rig(self, peer: str, scenario: str) -> bool:
        """Whether engine and client were the limit, and the server could have done more."""
        return any(
            row["rig_share"] > _SATURATED > row["server_share"] for row in self.used(peer, scenario)
        )


def _field(row: Row, name: str) -> float | None:
    value: Any = row
    for part in name.split("."):
        value = None if value is None else value.get(part)
    return None if value is None else float(value)
