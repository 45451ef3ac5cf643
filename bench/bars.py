"""What the gateway shall reach, and whether it does."""

from dataclasses import dataclass

from bench.figures import Figures


@dataclass(frozen=True)
class Bar:
    """A figure that we aim at.

    Attributes:
        figure: what was measured; None when something that it needs is missing.
        limit: what it must be, at least or at most.
    """

    what: str
    figure: float | None
    limit: float
    at_most: bool = False
    unit: str = ""

    @property
    def passed(self) -> bool | None:
        """None: not measured."""
        if self.figure is None:
            return None
        return self.figure <= self.limit if self.at_most else self.figure >= self.limit


def bars(figures: Figures, ours: str = "ours") -> list[Bar]:
    """What the gateway shall reach, each in comparison to others measured in the same run."""

    def scaled(value: float | None, by: float) -> float | None:
        return None if value is None else value * by

    rate, tokens = "requests_per_s", "tokens_per_s"
    latency = figures.added(ours, "paced64", "one_way_us.p50")
    naive = figures.added("naive", "paced64", "one_way_us.p50")
    ms, share = 1e-3, 100
    return [
        Bar(
            "plain answers, 32 at once: requests/s, times naive's",
            figures.ratio("plain32", rate, ours, "naive"),
            10,
        ),
        Bar(
            "streams in a burst: chunks/s, times naive's",
            figures.ratio("burst64", tokens, ours, "naive"),
            30,
        ),
        Bar(
            "streams in a burst: chunks/s, times sglang-router's",
            figures.ratio("burst64", tokens, ours, "sglang-router"),
            1,
        ),
        Bar(
            "64 streams at 50 tokens/s in step: added latency p50, times naive's",
            latency / naive if latency is not None and naive else None,
            0.2,
            at_most=True,
        ),
        Bar(
            "64 streams at 50 tokens/s in step: share of a core",
            scaled(figures.value(ours, "paced64", "server_share"), share),
            12,
            at_most=True,
            unit="%",
        ),
        Bar(
            "512 streams at 50 tokens/s: chunks/s, of those without a gateway",
            scaled(figures.ratio("paced512", tokens, ours, "direct"), share),
            97,
            unit="%",
        ),
        Bar(
            "512 streams at 50 tokens/s: latency p99",
            scaled(figures.value(ours, "paced512", "one_way_us.p99"), ms),
            50,
            at_most=True,
            unit="ms",
        ),
        Bar(
            "one stream: added time to the first chunk, p50",
            scaled(figures.added(ours, "first1", "first_token_us.p50"), ms),
            0.8,
            at_most=True,
            unit="ms",
        ),
        Bar(
            "256 at once on a 1-second engine: finished, of those without a gateway",
            scaled(figures.ratio("slow256", rate, ours, "direct"), share),
            98,
            unit="%",
        ),
        Bar("memory at rest", figures.rss_idle(ours), 150, at_most=True, unit="MB"),
        Bar(
            "memory for each open stream",
            figures.rss_per_stream(ours),
            40,
            at_most=True,
            unit="KB",
        ),
    ]
