"""Errors of the server as MLflow's, so that a logged model answers with the gateway's status.

MLflow maps an exception's code to the HTTP status (``mlflow/exceptions.py``,
``ERROR_CODE_TO_HTTP_STATUS``); the codes in ``app.errors`` are the same names. MLflow's own server
puts the failed request into the message (``Failed to predict data …``), which is beyond our reach.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.exceptions import MlflowException
from mlflow.protos import databricks_pb2

from app.errors import public_error


@contextmanager
def as_mlflow_errors() -> Iterator[None]:
    """Raise whatever goes wrong inside as an ``MlflowException`` with the right code."""
    try:
        yield
    except (MlflowException, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise mlflow_error(error) from error


def mlflow_error(error: BaseException) -> MlflowException:
    """The ``MlflowException`` that stands for an error."""
    public = public_error(error)
    code = databricks_pb2.ErrorCode.Value(public.kind.code)
    return MlflowException(public.message, error_code=code)
