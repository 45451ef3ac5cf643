"""MLflow's wrapped request forms: one request in each, whatever it is wrapped in."""

from typing import Any

import pytest

from app.errors import InvalidRequest, MalformedRequest
from app.schemas.mlflow_forms import unwrap

REQUEST: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
FULL: dict[str, Any] = REQUEST | {"custom_inputs": {"seed": 1}, "stream": True}


def split(*rows: list[Any], columns: list[Any] | None = None) -> dict[str, Any]:
    names = list(FULL) if columns is None else columns
    return {"dataframe_split": {"columns": names, "index": [0], "data": list(rows)}}


WRAPPED = [
    {"inputs": FULL},
    {"inputs": [FULL]},
    {"dataframe_records": [FULL]},
    {"dataframe_records": FULL},
    split(list(FULL.values())),
]


@pytest.mark.parametrize("body", WRAPPED)
def test_each_form_holds_the_request(body: dict[str, Any]) -> None:
    assert unwrap(body) == (FULL, True)


def test_an_unwrapped_request_is_left_alone() -> None:
    assert unwrap(FULL) == (FULL, False)
    both = FULL | {"inputs": {"messages": []}}
    assert unwrap(both) == (both, False)


def test_the_mode_may_stand_outside_and_the_inner_one_wins() -> None:
    assert unwrap({"inputs": REQUEST, "stream": True}) == (REQUEST | {"stream": True}, True)
    inner = REQUEST | {"stream": False}
    assert unwrap({"inputs": inner, "stream": True}) == (inner, True)
    assert unwrap({"inputs": REQUEST, "params": {"a": 1}}) == (REQUEST, True)


def test_cells_that_a_row_does_not_use_are_absent() -> None:
    row = [REQUEST["messages"], None, None]
    assert unwrap(split(row)) == (REQUEST, True)


def test_columns_of_any_kind_do_no_harm() -> None:
    body = split([REQUEST["messages"], 1, 2], columns=["messages", 5, None])
    assert unwrap(body) == (REQUEST | {"5": 1, "None": 2}, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], None),
        (None, None),
        ("messages", None),
        ({}, "messages"),
        ({"instances": [REQUEST]}, "messages"),
        ({"inputs": FULL, "dataframe_records": [FULL]}, "dataframe_records"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [FULL, FULL]}, "inputs"),
        ({"inputs": None}, "inputs"),
        ({"inputs": "hi"}, "inputs"),
        ({"inputs": [[FULL]]}, "inputs"),
        ({"inputs": {"foo": 1}}, "messages"),
        ({"dataframe_records": [FULL] * 3}, "dataframe_records"),
        ({"dataframe_split": []}, "dataframe_split"),
        ({"dataframe_split": {"columns": ["messages"]}}, "dataframe_split"),
        ({"dataframe_split": {"columns": "messages", "data": [[1]]}}, "dataframe_split"),
        (split(), "dataframe_split"),
        (split(list(FULL.values()), list(FULL.values())), "dataframe_split"),
        (split([1]), "dataframe_split"),
        (split({"messages": 1}), "dataframe_split"),  # type: ignore[arg-type]
        (split([None, None, None]), "messages"),
    ],
)
def test_refused(body: Any, field: str | None) -> None:
    with pytest.raises(MalformedRequest) as caught:
        unwrap(body)
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["prompt", "input"])
def test_requests_of_other_models_are_told_apart(name: str) -> None:
    for body in ({name: "hi"}, {"inputs": {name: "hi"}}):
        with pytest.raises(InvalidRequest) as caught:
            unwrap(body)
        assert caught.value.field == name
        assert not isinstance(caught.value, MalformedRequest)
