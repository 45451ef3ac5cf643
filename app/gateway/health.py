"""Health routes: MLflow's own, and two that tell the truth."""

from fastapi import APIRouter
from starlette.responses import Response

from app import __version__
from app.engines.lifecycle import ManagedEngine
from app.engines.phases import Phase
from app.gateway.responses import ASCIIJSONResponse


def router(engine: ManagedEngine, *, show_log: bool) -> APIRouter:
    """The routes, for one engine.

    Args:
        engine: the engine to tell about.
        show_log: whether ``/health/ready``, which asks for no key, shows the engine's last lines.
    """
    routes = APIRouter(tags=["health"])

    @routes.head("/ping", include_in_schema=False)
    @routes.head("/health", include_in_schema=False)
    @routes.get("/ping")
    @routes.get("/health")
    async def mlflow_health() -> Response:
        """What MLflow's scoring server answers: the process is up."""
        return Response(b"\n", media_type="application/json")

    @routes.get("/version")
    async def version() -> Response:
        """The server's version as bare text, in the form of MLflow's scoring server."""
        return Response(__version__, media_type="application/json")

    @routes.get("/health/live")
    async def live() -> Response:
        """200 as long as the gateway itself works, also while the engine loads."""
        return ASCIIJSONResponse({"status": "live"})

    @routes.get("/health/ready")
    async def ready() -> Response:
        """200 once the engine has generated a sampled token; 503 with phase and reason before."""
        status = engine.status
        if status.phase is Phase.READY:
            return ASCIIJSONResponse(status.as_dict())
        shown = status.as_dict()
        if not show_log:
            shown.pop("log", None)
        return ASCIIJSONResponse(shown, status_code=503, headers={"Retry-After": "5"})

    return routes
