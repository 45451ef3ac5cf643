"""``GET /metrics``: what the gateway counts, in the form of Prometheus."""

from collections.abc import Iterator
from functools import cache, partial

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from app import __version__
from app.admission import Admission
from app.engines.lifecycle import ManagedEngine
from app.engines.phases import Phase

# Refusals take milliseconds, long answers minutes.
_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_NO_ROUTE = "other"
_NO_ANSWER = "none"


class Metrics:
    """The numbers of one application, in a registry of their own.

    No label has a caller's text in it, so nobody can make their number grow: routes are templates
    such as ``/v1/models/{name}``, and requests that reach none (unknown paths, missing keys)
    share one.

    Args:
        engine: whose phase is shown; asked at each scrape.
        admission: whose counts are shown, as they are at each scrape.
    """

    def __init__(self, engine: ManagedEngine, admission: Admission) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "chat_server_requests_total",
            "Requests that have ended, by route and class of the status (2xx, 4xx, ...).",
            ["route", "status"],
            registry=registry,
        )
        self._duration = Histogram(
            "chat_server_request_duration_seconds",
            "From a request's headers to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._in_progress = Gauge(
            "chat_server_requests_in_progress",
            "Requests that are being answered, this one included.",
            registry=registry,
        )
        # There are a few dozen; prometheus-client looks each up under a lock.
        self._series = cache(self._of)
        phases = Gauge(
            "chat_server_engine_phase", "1 for the engine's phase.", ["phase"], registry=registry
        )
        for phase in Phase:
            phases.labels(phase.value).set_function(partial(_is_in, engine, phase))
        registry.register(_Counted(engine, admission))
        build = Info("chat_server_build", "What runs here.", registry=registry)
        build.info({"version": __version__})

    def begin(self) -> None:
        """A request has come."""
        self._in_progress.inc()

    def end(self, scope: Scope, status: int, seconds: float) -> None:
        """It has ended.

        Args:
            scope: of the request, in which the router has left the route that it took.
            status: as sent, or 0 if the request ended before an answer began.
            seconds: that it took.
        """
        self._in_progress.dec()
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        requests, duration = self._series(route, status // 100)
        requests.inc()
        duration.observe(seconds)

    def _of(self, route: str, hundreds: int) -> tuple[Counter, Histogram]:
        status = f"{hundreds}xx" if hundreds else _NO_ANSWER
        return self._requests.labels(route, status), self._duration.labels(route)

    def render(self, accept: str) -> tuple[bytes, str]:
        """All numbers as text, and its content type, for an ``Accept`` header."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def _is_in(engine: ManagedEngine, phase: Phase) -> float:
    return float(engine.status.phase is phase)


class _Counted(Collector):
    """What engine and admission count by themselves, read at each scrape."""

    def __init__(self, engine: ManagedEngine, admission: Admission) -> None:
        self._engine = engine
        self._admission = admission

    def collect(self) -> Iterator[Metric]:
        places = self._admission
        yield GaugeMetricFamily(
            "chat_server_requests_running", "Requests in the engine.", places.running
        )
        yield GaugeMetricFamily(
            "chat_server_requests_queued", "Requests that wait for their turn.", places.queued
        )
        yield CounterMetricFamily(
            "chat_server_requests_rejected", "Requests refused for lack of room.", places.rejected
        )
        yield CounterMetricFamily(
            "chat_server_engine_restarts",
            "Times that a lost engine was started again.",
            self._engine.restarts,
        )


def router(metrics: Metrics) -> APIRouter:
    """The route, for one application's numbers."""
    routes = APIRouter(tags=["health"])

    @routes.get("/metrics")
    async def show(request: Request) -> Response:
        """Requests, durations and the engine's phase, for Prometheus."""
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    return routes
