"""Tells whether MLflow is only logging the model, and what to answer then.

``log_model`` runs ``load_context`` and ``predict`` on the machine that logs, to check the schema of
an answer. That machine may have neither GPU nor weights, and nobody reads the answer, so no
engine is started for it. MLflow gives no sign of what it is doing, hence the look at the stack:
its ``save_model``, ``log_model`` and ``Model.log`` are there then, and never when a model serves.
"""

import sys

from app.events import Usage
from app.schemas.answer import Answer

_LOGGING_FUNCTIONS = frozenset({"save_model", "log_model", "log"})

# Obviously not a model's words, should anybody read it.
ANSWER = Answer(
    "(This model was not started: MLflow only checks the form of an answer while it logs.)",
    usage=Usage(0, 0, 0),
)


def being_logged() -> bool:
    """Whether the call comes out of MLflow's logging of a model."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("mlflow.") and frame.f_code.co_name in _LOGGING_FUNCTIONS:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
