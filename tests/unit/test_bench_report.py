"""The pure parts of ``make bench``: which measurements count, and what is made of them."""

import re

import pytest

from bench.bars import bars
from bench.environments import ROOT
from bench.figures import Figures, Row, quiet_runs
from bench.peers.catalogue import PEERS
from bench.report import fill, markdown, number
from bench.scenarios import SCENARIOS, body


def row(peer: str, scenario: str, *, disturbance: float = 0.0, **fields: object) -> Row:
    return {
        "peer": peer,
        "scenario": scenario,
        "disturbance": disturbance,
        "connections": 64,
        "open_streams": 64,
        "requests_per_s": 0.0,
        "tokens_per_s": 0.0,
        "server_share": 0.0 if peer == "direct" else 0.5,
        "rig_share": 0.2,
        "errors": 0,
        "rss": None,
        "rss_idle": None,
        **fields,
    }


def latency(name: str, p50: float, p99: float) -> dict[str, object]:
    return {name: {"p50": p50, "p99": p99}}


def results(rows: list[Row], **not_measured: str) -> dict[str, object]:
    return {
        "when": "2026-01-02 03:04 UTC",
        "command": "python -m bench",
        "machine": "2 cores",
        "rows": rows,
        "not_measured": not_measured,
    }


def test_disturbed_measurements_do_not_count_beside_quiet_ones() -> None:
    rows = [
        row("ours", "plain32", disturbance=share, requests_per_s=rate)
        for share, rate in ((0.5, 1.0), (0.02, 900.0), (0.0, 1100.0), (0.09, 1000.0))
    ]
    assert Figures(rows).value("ours", "plain32", "requests_per_s") == 1000.0


def test_of_disturbed_ones_only_the_three_least_disturbed_count() -> None:
    rows = [row("ours", "plain32", disturbance=share) for share in (0.9, 0.3, 0.5, 0.4)]
    assert [one["disturbance"] for one in quiet_runs(rows)] == [0.3, 0.4, 0.5]


def test_what_a_gateway_adds_is_the_difference_to_the_engine_alone() -> None:
    figures = Figures(
        [
            row("direct", "paced64", **latency("one_way_us", 200.0, 600.0)),
            row("ours", "paced64", **latency("one_way_us", 1000.0, 3000.0)),
            row("ours", "plain32", one_way_us=None),
        ]
    )
    assert figures.added("ours", "paced64", "one_way_us.p50") == 800.0
    assert figures.added("ours", "paced512", "one_way_us.p50") is None
    assert figures.added("ours", "plain32", "one_way_us.p50") is None


def test_rates_are_counted_for_a_whole_core() -> None:
    figures = Figures([row("ours", "plain32", requests_per_s=500.0, server_share=0.25)])
    assert figures.per_core("ours", "plain32", "requests_per_s") == 2000.0
    assert figures.per_core("direct", "plain32", "requests_per_s") is None


def test_memory_for_a_stream_is_taken_when_nearly_all_are_open_for_the_first_time() -> None:
    figures = Figures(
        [
            row("ours", "open512", connections=512, open_streams=9, rss=102.0, rss_idle=100.0),
            row("ours", "open512", connections=512, open_streams=500, rss=110.0, rss_idle=100.0),
            row("ours", "open512", connections=512, open_streams=512, rss=190.0, rss_idle=100.0),
        ]
    )
    assert figures.rss_per_stream("ours") == 20.0  # KB
    assert figures.rss_idle("ours") == 100.0


@pytest.mark.parametrize(
    ("rig", "server", "held"), [(0.95, 0.6, True), (0.95, 0.95, False), (0.6, 0.95, False)]
)
def test_a_rig_at_its_limit_is_not_taken_for_the_servers_limit(
    rig: float, server: float, held: bool
) -> None:
    rows = [row("ours", "plain32", rig_share=rig, server_share=server, requests_per_s=12_345.0)]
    assert Figures(rows).held_by_the_rig("ours", "plain32") is held
    assert ("≥ 12.3k" in markdown(results(rows), "x.png")) is held


@pytest.mark.parametrize(
    ("ours", "naive", "expected"), [(1000.0, 100.0, True), (999.0, 100.0, False)]
)
def test_a_ratio_meets_its_bar_or_misses_it(ours: float, naive: float, expected: bool) -> None:
    figures = Figures(
        [
            row("ours", "plain32", requests_per_s=ours),
            row("naive", "plain32", requests_per_s=naive),
        ]
    )
    assert bars(figures)[0].passed is expected


@pytest.mark.parametrize(("p50", "expected"), [(300.0, True), (301.0, False)])
def test_a_latency_meets_its_bar_at_most(p50: float, expected: bool) -> None:
    figures = Figures(
        [
            row("direct", "paced64", **latency("one_way_us", 100.0, 0.0)),
            row("ours", "paced64", **latency("one_way_us", p50, 0.0)),
            row("naive", "paced64", **latency("one_way_us", 1100.0, 0.0)),
        ]
    )
    (bar,) = [bar for bar in bars(figures) if "added latency p50" in bar.what]
    assert bar.passed is expected


def test_without_figures_no_bar_is_passed() -> None:
    assert {bar.passed for bar in bars(Figures([]))} == {None}
    assert markdown(results([]), "x.png").count("not measured") == len(bars(Figures([])))


def test_the_report_names_every_peer_measured_or_not() -> None:
    rows = [
        row("direct", "paced64", **latency("one_way_us", 200.0, 500.0)),
        row("ours", "paced64", errors=3, **latency("one_way_us", 1250.0, 2000.0)),
    ]
    text = markdown(results(rows, litellm="its packages can't be installed"), "x.png")
    assert "![The peers compared](x.png)" in text
    assert "- litellm: its packages can't be installed" in text
    (direct,) = re.findall(r"^\| direct \|.* 0\.20 / 0\.50 .*$", text, re.MULTILINE)
    (ours,) = re.findall(r"^\| ours \|.* 1\.05 / 1\.50 .*$", text, re.MULTILINE)
    assert direct.count("|") == ours.count("|")
    assert re.search(r"^\| ours \|.* 3 \|$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(None, 0, "–"), (0.0, 2, "0.00"), (9999.4, 0, "9999"), (12_345.0, 0, "12.3k")],
)
def test_numbers_are_short(value: float | None, digits: int, shown: str) -> None:
    assert number(value, digits) == shown


def test_a_report_takes_the_place_of_an_older_one() -> None:
    document = "before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n"
    filled = fill(document, "new\n")
    assert filled == "before\n<!-- measured -->\n\nnew\n\n<!-- /measured -->\nafter\n"
    assert fill(filled, "new\n") == filled
    with pytest.raises(ValueError, match="measured"):
        fill("no place", "new")


def test_every_peer_can_be_started_and_asked() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    for peer in PEERS:
        assert b"Lutetia" in body(peer.speaks, stream=True, long_prompt=True)
        if peer.server is not None and peer.server.environment is not None:
            pins = ROOT / "requirements" / f"bench-{peer.server.environment}.txt"
            assert "==" in pins.read_text(encoding="utf-8")


def test_the_bars_are_about_scenarios_that_exist() -> None:
    """A bar whose scenario was renamed would be "not measured" for ever."""
    rows = [
        row(
            peer,
            scenario.name,
            requests_per_s=1.0,
            tokens_per_s=1.0,
            rss=2.0,
            rss_idle=1.0,
            **latency("one_way_us", 1.0 + (peer != "direct"), 1.0),
            **latency("first_token_us", 1.0, 1.0),
        )
        for peer in ("direct", "ours", "naive", "sglang-router")
        for scenario in SCENARIOS
    ]
    assert None not in {bar.passed for bar in bars(Figures(rows))}
