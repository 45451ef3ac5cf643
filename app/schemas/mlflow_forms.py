"""The wrapped request forms of MLflow's scoring protocol.

``inputs``, ``dataframe_records`` and ``dataframe_split`` hold one ChatAgent request, and the
answer comes back under ``predictions`` (``mlflow/pyfunc/scoring_server/__init__.py``). MLflow
answers the first row of several and drops the others silently; here that is an error.
"""

from app.errors import MalformedRequest
from app.schemas.chat_agent import require_messages

JSONObject = dict[str, object]

WRAPPERS = ("inputs", "dataframe_records", "dataframe_split")


def unwrap(body: object) -> tuple[JSONObject, bool]:
    """The ChatAgent request in ``body``, and whether it was wrapped.

    Raises:
        MalformedRequest: no request in it, several of them, or two forms at once.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("The body must be a JSON object.")
    wrappers = [name for name in WRAPPERS if name in body]
    if not wrappers or "messages" in body:
        require_messages(body)
        return body, False
    if len(wrappers) > 1:
        raise MalformedRequest(f"Send only one of {' and '.join(wrappers)}.", field=wrappers[1])
    name = wrappers[0]
    row = _split_row(body[name]) if name == "dataframe_split" else _only_row(body[name], name)
    require_messages(row)
    # A request may name its mode outside of the wrapping as well.
    if "stream" in body:
        row = {"stream": body["stream"], **row}
    return row, True


def _only_row(value: object, name: str) -> JSONObject:
    if isinstance(value, list):
        if len(value) != 1:
            raise MalformedRequest(
                f"'{name}' holds {len(value)} rows; a chat request is exactly one.", field=name
            )
        value = value[0]
    if not isinstance(value, dict):
        raise MalformedRequest(f"'{name}' must hold a ChatAgent request object.", field=name)
    return value


def _split_row(value: object) -> JSONObject:
    name = "dataframe_split"
    columns = value.get("columns") if isinstance(value, dict) else None
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(columns, list) or not isinstance(data, list):
        raise MalformedRequest(f"'{name}' must have the lists 'columns' and 'data'.", field=name)
    if len(data) != 1:
        raise MalformedRequest(
            f"'{name}.data' holds {len(data)} rows; a chat request is exactly one.", field=name
        )
    row = data[0]
    if not isinstance(row, list) or len(row) != len(columns):
        raise MalformedRequest(f"'{name}.data[0]' must have one value a column.", field=name)
    # A column that a row does not use is null in a data frame.
    cells = zip(map(str, columns), row, strict=True)
    return {column: cell for column, cell in cells if cell is not None}
