"""Which of several known failures is told."""

from __future__ import annotations

import pytest

from model_wrapper.targets.failures import KNOWN_FAILURES, KnownFailure, explain

TIMED_OUT = "Served entity creation aborted because the endpoint update timed out."


@pytest.mark.parametrize(
    "known", [known for known in KNOWN_FAILURES if not known.vague], ids=lambda known: known.text
)
def test_a_log_tells_more_than_that_the_time_was_up(known: KnownFailure) -> None:
    assert explain(TIMED_OUT, "", f"INFO start\n{known.text}\nend") is known


def test_but_that_is_told_where_nothing_else_is_known() -> None:
    found = explain("", TIMED_OUT, "INFO loading weights")
    assert found is not None
    assert found.vague


def test_what_the_platform_says_comes_before_the_logs() -> None:
    found = explain("PERMISSION_DENIED: no", "WARNING No module named 'optional'")
    assert found is not None
    assert found.text == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "CUDA out of mem"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static", "CUDA"),
        ("ERROR: Could not find a version that satisfies the requirement x==9", "No matching"),
        ("ModuleNotFoundError: No module named 'sglang'", "No module named"),
        ("Workload type 'GPU_LARGE' with size 'Medium' is not supported", "Workload type"),
        ("429 REQUEST_LIMIT_EXCEEDED: Too many concurrent requests", "Exceeded max number"),
        ("User does not have EXECUTE on Routine or Model 'main.a.b'", "PERMISSION_DENIED"),
        ("403 PERMISSION_DENIED: Invalid access token.", "Invalid access token"),
        ("Endpoint chat can't be updated: an update is in progress.", "update is in progress"),
        ("OSError: [Errno 28] No space left on device", "No space left"),
    ],
)
def test_the_particular_before_the_general(text: str, expected: str) -> None:
    found = explain(text)
    assert found is not None
    assert found.text.startswith(expected)
