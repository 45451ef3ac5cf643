"""Everything that can go wrong with a request, and what the caller is told.

The tree::

    ChatServerError
    ├── InvalidRequest            400  the body breaks a rule; names the field and the fix
    │   └── MalformedRequest      400  the body is not a request at all (bad JSON, no messages)
    ├── Unauthenticated           401  no key, or a wrong one
    ├── NotFound                  404  no such model
    │   └── NoSuchRoute           404  no such path
    ├── MethodNotAllowed          405  the path is there, the method is not
    ├── RequestTimeout            408  the caller was too slow to send the request
    ├── UnsupportedMediaType      415  not JSON, or not UTF-8
    ├── PayloadTooLarge           413  the body is over the limit
    ├── Overloaded                429  too many requests; try again later
    ├── RequestCancelled          499  the caller went away
    ├── EngineFailed              500  the engine answered with a fault of its own
    ├── EngineUnavailable         503  no engine to ask (starting, stopped, died)
    └── DeadlineExceeded          504  the answer took longer than allowed

Codes are MLflow's own (``mlflow.exceptions.ERROR_CODE_TO_HTTP_STATUS`` and
``mlflow/protos/databricks.proto``), so that the HTTP gateway and the logged model agree.
A message is public: it never carries the caller's text, a path or a stack trace.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ErrorKind:
    """How one class of errors looks from outside."""

    status: int
    """HTTP status code."""
    code: str
    """MLflow's ``error_code``."""
    openai_type: str
    """``error.type`` on the OpenAI routes."""
    retryable: bool = False
    """Whether sending the same request again later can succeed."""


class ChatServerError(Exception):
    """Base of every error that a caller may see."""

    def __init__(
        self, message: str, *, field: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after

    @property
    def kind(self) -> ErrorKind:
        """The row of the table for this error's class."""
        return kind_of(type(self))


class InvalidRequest(ChatServerError):
    """The request breaks a rule of the schema."""


class MalformedRequest(InvalidRequest):
    """The body can't be read as a request."""


class Unauthenticated(ChatServerError):
    """The API key is missing or wrong."""


class NotFound(ChatServerError):
    """The model does not exist."""


class NoSuchRoute(NotFound):
    """The path does not exist."""


class MethodNotAllowed(ChatServerError):
    """The path exists, but not with this method."""


class PayloadTooLarge(ChatServerError):
    """The body is larger than the server takes."""


class RequestTimeout(ChatServerError):
    """The caller took too long to send its request."""


class UnsupportedMediaType(ChatServerError):
    """The content type is not one that the server reads."""


OverloadReason = Literal["queue-full", "queue-timeout", "key-limit"]


class Overloaded(ChatServerError):
    """More requests than the server or its engine can take.

    Args:
        message: for the caller.
        field: none.
        retry_after: seconds after which a place should be free.
        reason: which of the server's own limits it is; None when the engine refused.
        queued: how many requests wait at this moment.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        retry_after: int | None = None,
        reason: OverloadReason | None = None,
        queued: int | None = None,
    ) -> None:
        super().__init__(message, field=field, retry_after=retry_after)
        self.reason = reason
        self.queued = queued


class RequestCancelled(ChatServerError):
    """The caller left before the answer was complete."""


class EngineFailed(ChatServerError):
    """The engine broke while it worked on the request."""


class EngineUnavailable(ChatServerError):
    """There is no engine that could take the request now."""


class DeadlineExceeded(ChatServerError):
    """The answer did not come in time."""


# The one table from exception to status.
_KINDS: dict[type[ChatServerError], ErrorKind] = {
    MalformedRequest: ErrorKind(400, "BAD_REQUEST", "invalid_request_error"),
    InvalidRequest: ErrorKind(400, "INVALID_PARAMETER_VALUE", "invalid_request_error"),
    Unauthenticated: ErrorKind(401, "UNAUTHENTICATED", "authentication_error"),
    NotFound: ErrorKind(404, "RESOURCE_DOES_NOT_EXIST", "invalid_request_error"),
    NoSuchRoute: ErrorKind(404, "ENDPOINT_NOT_FOUND", "invalid_request_error"),
    MethodNotAllowed: ErrorKind(405, "BAD_REQUEST", "invalid_request_error"),
    RequestTimeout: ErrorKind(408, "BAD_REQUEST", "invalid_request_error", retryable=True),
    PayloadTooLarge: ErrorKind(413, "INVALID_PARAMETER_VALUE", "invalid_request_error"),
    UnsupportedMediaType: ErrorKind(415, "BAD_REQUEST", "invalid_request_error"),
    Overloaded: ErrorKind(429, "REQUEST_LIMIT_EXCEEDED", "rate_limit_error", retryable=True),
    RequestCancelled: ErrorKind(499, "CANCELLED", "invalid_request_error"),
    EngineUnavailable: ErrorKind(503, "TEMPORARILY_UNAVAILABLE", "server_error", retryable=True),
    DeadlineExceeded: ErrorKind(504, "DEADLINE_EXCEEDED", "server_error"),
    EngineFailed: ErrorKind(500, "INTERNAL_ERROR", "server_error"),
    ChatServerError: ErrorKind(500, "INTERNAL_ERROR", "server_error"),
}


def kind_of(error_class: type[ChatServerError]) -> ErrorKind:
    """Row of the table for a class: its own, or its nearest ancestor's."""
    for ancestor in error_class.__mro__:
        if ancestor in _KINDS:
            return _KINDS[ancestor]
    raise KeyError(error_class)


def engine_lost() -> EngineUnavailable:
    """The engine, or the way to it, was gone in the middle of an answer."""
    message = "The engine went away before the answer was complete."
    return EngineUnavailable(message, retry_after=5)


def public_error(error: BaseException) -> ChatServerError:
    """What a caller may see of any exception: itself if it is ours, else a bare internal error."""
    if isinstance(error, ChatServerError):
        return error
    return EngineFailed("Internal error. The server's log has the details under this request id.")
