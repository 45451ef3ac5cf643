"""Builds what the settings ask for. The gateway and the MLflow model both start here."""

from app.admission import Admission, Limits
from app.engines.attached import AttachedEngine
from app.engines.lifecycle import ManagedEngine
from app.engines.sglang import SGLangEngine
from app.settings import Settings


def build_engine(settings: Settings) -> ManagedEngine:
    """The engine to ask: one that already runs, or our own SGLang."""
    if settings.engine_url is None:
        return SGLangEngine(settings)
    key = settings.engine_api_key
    return AttachedEngine(
        settings.engine_url,
        api_key=key.get_secret_value() if key else None,
        request_timeout=settings.request_timeout,
        idle_timeout=settings.idle_timeout,
    )


def build_admission(settings: Settings) -> Admission:
    """The places at the engine, which every way to ask it shares."""
    return Admission(
        Limits(
            running=settings.resolve_concurrency(),
            queued=settings.max_queued_requests,
            queue_timeout=settings.queue_timeout,
            per_key=settings.max_requests_per_key,
        )
    )
