"""The results as a picture."""

import math
from collections.abc import Callable
from pathlib import Path

from bench.figures import Figures
from bench.report import number

_OURS, _OTHERS, _DIRECT = "#1f77b4", "#9aa5b1", "#d5dae0"


def draw(figures: Figures, path: Path) -> None:
    """Four comparisons, each on a logarithmic scale, as a PNG."""
    # Imported here: only who draws needs it, and it is slow to import.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter

    def ms(scenario: str, name: str) -> Callable[[str], float | None]:
        def get(peer: str) -> float | None:
            added = figures.added(peer, scenario, name)
            return None if added is None or peer == "direct" else added / 1000

        return get

    panels: list[tuple[str, Callable[[str], float | None]]] = [
        (
            "plain answers, 32 at once: requests/s",
            lambda peer: figures.value(peer, "plain32", "requests_per_s"),
        ),
        (
            "64 streams in a burst: chunks/s",
            lambda peer: figures.value(peer, "burst64", "tokens_per_s"),
        ),
        (
            "64 streams at 50 tokens/s: added latency p50, ms (less is better)",
            ms("paced64", "one_way_us.p50"),
        ),
        ("MB for 1,000 open streams (less is better)", figures.rss_per_stream),
    ]
    figure, axes = pyplot.subplots(2, 2, figsize=(12, 7.5), layout="constrained")
    for axis, (title, get) in zip(axes.flat, panels, strict=True):
        found = [(peer, value) for peer in figures.peers if (value := get(peer)) and value > 0]
        axis.set_title(title, fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        if not found:
            axis.text(0.5, 0.5, "not measured", ha="center", transform=axis.transAxes)
            axis.set_axis_off()
            continue
        names, values = zip(*reversed(found), strict=True)
        colours = [
            _OURS if name.startswith("ours") else _DIRECT if name == "direct" else _OTHERS
            for name in names
        ]
        bars = axis.barh(names, values, color=colours)
        # From a power of ten on: on an axis that fits the values, the least would have no length.
        lowest, highest = math.floor(math.log10(min(values))), math.log10(max(values))
        axis.set_xscale("log")
        axis.set_xlim(10.0**lowest / 2, 10.0 ** (math.floor(highest) + 1.3))
        axis.xaxis.set_minor_formatter(NullFormatter())
        labels = [number(value, 0 if value >= 100 else 2) for value in values]
        axis.bar_label(bars, labels, padding=3, fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
