"""Validates ChatAgent objects with the oldest, a middle and the newest MLflow that we promise.

The environments are made by ``make .venv-mlflow-2.20.2 .venv-mlflow-2.22.5`` (``make test`` does it
by itself); the newest version is the one in ``.venv``.
"""

from tests.mlflow_versions.validation import (
    Candidate,
    Problem,
    chunks,
    interpreters,
    response,
    validate,
)

__all__ = ["Candidate", "Problem", "chunks", "interpreters", "response", "validate"]
