"""The one table of errors, against MLflow's own."""

import inspect
from http import HTTPStatus

import pytest
from mlflow.exceptions import ERROR_CODE_TO_HTTP_STATUS
from mlflow.protos import databricks_pb2

from app import errors
from app.errors import ChatServerError, EngineFailed, InvalidRequest, kind_of, public_error
from app.gateway.error_forms import error_body_for, mlflow_error, openai_error
from app.gateway.responses import error_response

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, ChatServerError)
]
# MLflow's codes have no status of their own for these, so the nearest code goes with HTTP's status.
OWN_STATUS = {
    "RequestTimeout": 408,
    "PayloadTooLarge": 413,
    "UnsupportedMediaType": 415,
    "MethodNotAllowed": 405,
}


@pytest.mark.parametrize("error_class", CLASSES)
def test_every_class_has_a_row_of_its_own(error_class: type[ChatServerError]) -> None:
    assert error_class in errors._KINDS


@pytest.mark.parametrize("error_class", CLASSES)
def test_codes_are_mlflows_and_statuses_agree(error_class: type[ChatServerError]) -> None:
    kind = kind_of(error_class)
    assert kind.code in set(databricks_pb2.ErrorCode.keys())
    mlflows = ERROR_CODE_TO_HTTP_STATUS.get(kind.code, 500)
    if (own := OWN_STATUS.get(error_class.__name__)) is not None:
        assert kind.status == own != mlflows
        assert mlflows == 400
    else:
        assert kind.status == mlflows


@pytest.mark.parametrize("error_class", CLASSES)
def test_the_tree_in_the_documentation_is_the_real_one(error_class: type[ChatServerError]) -> None:
    if error_class is not ChatServerError:
        (row,) = [
            line
            for line in (errors.__doc__ or "").splitlines()
            if f"─ {error_class.__name__} " in line
        ]
        assert f" {kind_of(error_class).status} " in row


@pytest.mark.parametrize("error_class", CLASSES)
def test_both_forms_on_the_wire(error_class: type[ChatServerError]) -> None:
    error = error_class("what is wrong", field="messages", retry_after=7)
    assert mlflow_error(error) == {"error_code": error.kind.code, "message": "what is wrong"}
    openai = openai_error(error)["error"]
    assert isinstance(openai, dict)
    assert (openai["message"], openai["param"]) == ("what is wrong", "messages")
    answer = error_response(error, mlflow_error)
    assert answer.status_code == error.kind.status
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["content-type"] == "application/json"


def test_a_class_without_a_row_has_its_parents() -> None:
    class Odd(InvalidRequest):
        pass

    assert kind_of(Odd) == kind_of(InvalidRequest)


def test_only_what_can_succeed_later_is_retryable() -> None:
    retryable = {kind_of(each).status for each in CLASSES if kind_of(each).retryable}
    assert retryable == {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }


def test_other_exceptions_show_nothing_of_themselves() -> None:
    shown = public_error(ValueError("/root/secret: the prompt"))
    assert type(shown) is EngineFailed
    assert "secret" not in shown.message
    own = InvalidRequest("x")
    assert public_error(own) is own


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/v1/"])
def test_openais_routes_speak_openais_language(path: str) -> None:
    assert error_body_for(path) is openai_error


@pytest.mark.parametrize("path", ["/invocations", "/", "/v1", "/v10/x", "/x/v1/"])
def test_all_other_routes_speak_mlflows(path: str) -> None:
    assert error_body_for(path) is mlflow_error
