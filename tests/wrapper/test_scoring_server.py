"""``mlflow models serve`` with several workers: one engine, and MLflow's own statuses.

The requests are those that were recorded with MLflow's server and a toy agent.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.contract.test_conformance import OURS as GATEWAYS_OWN
from tests.wrapper.conftest import WORKERS
from tests.wrapper.sandbox import Sandbox
from tests.wrapper.scoring import Scoring

RECORDED = Path(__file__).parents[1] / "data" / "mlflow_invocations.json"
CASES = {case["case"]: case for case in json.loads(RECORDED.read_text(encoding="utf-8"))}
RELEASE = "3.18.0"

# Where our model answers otherwise than the toy agent of the recording, and why. The gateway's own
# list (tests/contract/test_conformance.py) has the same two.
OURS = {
    "message_unknown_role": 400,  # the engine has no such role
    "ok_full": 400,  # its custom_inputs 'x' and 'y' mean nothing here
}

# All requests to the model but those that the gateway means to answer otherwise than MLflow's
# server: it streams, and its own list has the other reasons.
SAME_FOR_BOTH = [
    name
    for name, case in CASES.items()
    if case["path"] == "/invocations"
    and case["method"] == "POST"
    and '"stream": true' not in case["body"]
    and (name in OURS or name not in GATEWAYS_OWN)
]


@pytest.fixture(scope="module")
def answers(scoring: Scoring) -> dict[str, requests.Response]:
    """What each recorded request got."""
    return ask_all(scoring.url)


@pytest.fixture(scope="module")
def answers_of_gateway(gateway: str) -> dict[str, requests.Response]:
    """What the server itself answers to them."""
    return ask_all(gateway)


def ask_all(url: str) -> dict[str, requests.Response]:
    """The answers to all recorded requests. Together they come sooner: the engine batches."""
    with ThreadPoolExecutor(16) as pool:
        return dict(zip(CASES, pool.map(partial(ask, url), CASES.values()), strict=True))


def ask(url: str, case: dict[str, Any]) -> requests.Response:
    """The answer to one recorded request.

    A connection each: after an unhandled error MLflow's server drops the one it came on.
    """
    with requests.Session() as session:
        # It adds no headers of its own: one case is about having none.
        session.headers.clear()
        body = case["body"].encode() if case["method"] == "POST" else None
        request = requests.Request(
            case["method"], url + case["path"], data=body, headers=case["headers"]
        )
        return session.send(request.prepare(), timeout=300, allow_redirects=False)


@pytest.mark.parametrize("name", CASES)
def test_status(name: str, answers: dict[str, requests.Response]) -> None:
    expected = OURS.get(name) or CASES[name]["mlflow"][RELEASE]["status"]
    assert answers[name].status_code == expected, answers[name].text[:500]


@pytest.mark.parametrize("name", CASES)
def test_error_code(name: str, answers: dict[str, requests.Response]) -> None:
    recorded = CASES[name]["mlflow"][RELEASE]
    if name in OURS:
        expected = "INVALID_PARAMETER_VALUE"
    else:
        expected = (recorded["error"] or {}).get("error_code")
    try:
        found = answers[name].json().get("error_code")
    except (ValueError, AttributeError):  # no JSON, or no object
        found = None
    assert found == expected


@pytest.mark.parametrize("name", SAME_FOR_BOTH)
def test_same_form_as_the_gateway(
    name: str,
    answers: dict[str, requests.Response],
    answers_of_gateway: dict[str, requests.Response],
) -> None:
    """Status and, in an answer, every key and type."""
    theirs, ours = answers[name], answers_of_gateway[name]
    assert theirs.status_code == ours.status_code
    if ours.status_code == 200:
        assert form(theirs.json()) == form(ours.json())


def form(value: Any) -> Any:
    """Keys and types; of a list, those of its first element."""
    if isinstance(value, dict):
        return {key: form(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [form(inner) for inner in value[:1]]
    return type(value).__name__


def test_all_workers_share_one_engine(scoring: Scoring, sandbox: Sandbox) -> None:
    assert scoring.workers == WORKERS > 1
    assert len(sandbox.engines()) == 1


def test_same_answer_from_every_worker(scoring: Scoring) -> None:
    request: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Name three colours."}],
        "custom_inputs": {"temperature": 0, "max_tokens": 8},
    }
    # Each request is a new connection, which any of them may take.
    texts = {scoring.invoke(**request).json()["messages"][0]["content"] for _ in range(4 * WORKERS)}
    assert len(texts) == 1
