"""How errors are worded: MLflow's way, and OpenAI's on its own routes."""

from collections.abc import Callable, Mapping

from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from app.errors import ChatServerError

ErrorBody = Callable[[ChatServerError], Mapping[str, object]]
ErrorForm = Callable[[str], ErrorBody]
"""From a path to how errors are worded there."""


class MLflowError(TypedDict):
    """The body of an error."""

    error_code: str
    message: str


class OpenAIErrorDetails(TypedDict):
    """What happened."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAIError(TypedDict):
    """The body of an error."""

    error: OpenAIErrorDetails


def mlflow_error(error: ChatServerError) -> MLflowError:
    """The error as MLflow's scoring server words it."""
    return {"error_code": error.kind.code, "message": error.message}


def openai_error(error: ChatServerError) -> OpenAIError:
    """The error as OpenAI's API words it."""
    return {
        "error": {
            "message": error.message,
            "type": error.kind.openai_type,
            "param": error.field,
            "code": error.kind.code.lower(),
        }
    }


def error_body_for(path: str) -> ErrorBody:
    """How errors are worded in the part of the API that ``path`` belongs to."""
    return openai_error if path.startswith("/v1/") else mlflow_error


def openai_everywhere(_: str) -> ErrorBody:
    """For servers whose every route is OpenAI's (``INVOCATIONS=openai``)."""
    return openai_error
