"""The results as Markdown."""

import statistics
from collections.abc import Callable
from typing import Any

from bench.bars import bars
from bench.figures import Figures

_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"
_NOTHING = "–"
Column = tuple[str, Callable[[str], str]]


def number(value: float | None, digits: int = 0) -> str:
    """For a table: 12.3k, or with so many digits behind the point; a dash for nothing."""
    if value is None:
        return _NOTHING
    if abs(value) >= 10_000:
        return f"{value / 1000:.1f}k"
    return f"{value:.{digits}f}"


def table(peers: list[str], columns: list[Column]) -> str:
    """A row for each peer that has a figure in it."""
    lines = [
        "| | " + " | ".join(head for head, _ in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for peer in peers:
        cells = [show(peer) for _, show in columns]
        if set(cells) != {_NOTHING}:
            lines.append(f"| {peer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _throughput(figures: Figures) -> str:
    def rate(scenario: str, name: str) -> Callable[[str], str]:
        def show(peer: str) -> str:
            limit = peer != "direct" and figures.held_by_the_rig(peer, scenario)
            return ("≥ " if limit else "") + number(figures.value(peer, scenario, name))

        return show

    def per_core(scenario: str, name: str) -> Callable[[str], str]:
        return lambda peer: number(figures.per_core(peer, scenario, name))

    requests, tokens = "requests_per_s", "tokens_per_s"
    columns: list[Column] = [
        ("requests/s, 1 at once", rate("plain1", requests)),
        ("32 at once", rate("plain32", requests)),
        ("32 at once, requests/s/core", per_core("plain32", requests)),
        ("256 at once", rate("plain256", requests)),
        ("32 at once, 34 KB", rate("long32", requests)),
        ("256 on a 1-second engine", rate("slow256", requests)),
        ("chunks/s, 64 in a burst", rate("burst64", tokens)),
        ("burst, chunks/s/core", per_core("burst64", tokens)),
        ("errors", lambda peer: str(figures.errors(peer))),
    ]
    return table(figures.peers, columns)


def _latency(figures: Figures) -> str:
    def added(scenario: str, name: str) -> Callable[[str], str]:
        def show(peer: str) -> str:
            # The engine's own row says what the others' come on top of.
            get = figures.value if peer == "direct" else figures.added
            both = [get(peer, scenario, f"{name}.{part}") for part in ("p50", "p99")]
            if None in both:
                return _NOTHING
            return " / ".join(number(value and value / 1000, 2) for value in both)

        return show

    def share(peer: str) -> str:
        value = figures.value(peer, "paced64", "server_share")
        return _NOTHING if value is None or peer == "direct" else number(100 * value)

    first, each = "first_token_us", "one_way_us"
    columns: list[Column] = [
        *((f"first chunk, {n}", added(f"first{n}", first)) for n in (1, 64, 512)),
        *((f"each chunk, {n}", added(f"paced{n}", each)) for n in (1, 64, 512)),
        ("each, 64 not in step", added("spread64", each)),
        ("64: % of a core", share),
        (
            "512: chunks/s of 25.6k",
            lambda peer: number(figures.value(peer, "paced512", "tokens_per_s")),
        ),
    ]
    return table(figures.peers, columns)


def _memory(figures: Figures) -> str:
    columns: list[Column] = [
        ("MB at rest", lambda peer: number(figures.rss_idle(peer))),
        ("MB for 1,000 open streams", lambda peer: number(figures.rss_per_stream(peer), 1)),
    ]
    return table(figures.peers, columns)


def _bars(figures: Figures) -> str:
    words = {True: "pass", False: "**miss**", None: "not measured"}
    lines = ["| | measured | at least / most | |", "|---|---:|---:|---|"]
    for bar in bars(figures):
        sign = "≤" if bar.at_most else "≥"
        figure = number(bar.figure, 2) + (f" {bar.unit}" if bar.figure is not None else "")
        limit = f"{sign} {bar.limit:g} {bar.unit}".strip()
        lines.append(f"| {bar.what} | {figure.strip()} | {limit} | {words[bar.passed]} |")
    return "\n".join(lines)


def _trust(figures: Figures) -> str:
    used = [
        row
        for cell in dict.fromkeys((row["peer"], row["scenario"]) for row in figures.rows)
        for row in figures.used(*cell)
    ]
    disturbed = [100 * row["disturbance"] for row in used]
    return (
        f"{len(figures.rows)} measurements. In those used, others took "
        f"{statistics.median(disturbed):.1f} % of a core (median), {max(disturbed):.0f} % at worst."
    )


def markdown(results: dict[str, Any], picture: str) -> str:
    """The whole report.

    Args:
        results: what ``python -m bench`` saves: ``machine``, ``when``, ``command``, ``rows`` and
            ``not_measured`` (peer to reason).
        picture: address of the picture, as seen from where the text will be.
    """
    figures = Figures(results["rows"])
    missing = [f"- {peer}: {why}" for peer, why in results["not_measured"].items()]
    parts = [
        f"Measured on {results['when']} with `{results['command']}` on {results['machine']}. "
        + (_trust(figures) if figures.rows else "Nothing was measured."),
        f"![The peers compared]({picture})",
        "**Aims**",
        _bars(figures),
        "**Throughput.** `direct` is the engine without a gateway and so the rig's own ceiling;"
        " ≥ marks figures at which the rig was the limit and not the server.",
        _throughput(figures),
        "**Added latency, p50 / p99 in ms**, at 1, 64 and 512 streams: what comes on top of"
        " `direct`, whose row has its own. First chunk: from the request. Each chunk: from the"
        " engine's send to the client's receive.",
        _latency(figures),
        "**Memory**",
        _memory(figures),
    ]
    if missing:
        parts += ["**Not measured**", "\n".join(missing)]
    return "\n\n".join(parts) + "\n"


def fill(document: str, report: str) -> str:
    """Put a report into the place of a document that is marked for it.

    Raises:
        ValueError: the document has no such place.
    """
    head, begin, rest = document.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"The document has no {_BEGIN} ... {_END}.")
    return f"{head}{begin}\n\n{report.strip()}\n\n{end}{tail}"
