"""Which compute a model needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_wrapper.targets.base import TargetError
from model_wrapper.targets.workloads import GIB, WORKLOADS, choose, memory_needed


@pytest.mark.parametrize(
    ("cloud", "gib", "expected"),
    [
        ("aws", 0.3, "GPU_MEDIUM"),
        ("aws", 15, "GPU_MEDIUM"),  # 7 billion parameters in 16 bits
        ("aws", 18, "GPU_MEDIUM"),  # 32 billion in 4 bits, as published on one A10G
        ("aws", 28, "MULTIGPU_MEDIUM"),
        ("azure", 15, "GPU_LARGE"),
        ("azure", 60, "GPU_LARGE"),
    ],
)
def test_the_smallest_that_fits(cloud: str, gib: float, expected: str) -> None:
    assert choose(cloud, int(gib * GIB), needs_gpu=True).workload == expected


def test_a_cpu_model_gets_no_gpu() -> None:
    assert choose("aws", 300_000_000, needs_gpu=False).workload == "CPU"


@given(st.integers(1, 90 * GIB), st.sampled_from(["aws", "azure"]))
def test_what_is_chosen_has_the_memory(weights: int, cloud: str) -> None:
    largest = max(each.gib for each in WORKLOADS[cloud] if each.chosen)
    if memory_needed(weights)[0] > largest:
        with pytest.raises(TargetError, match="quantized"):
            choose(cloud, weights, needs_gpu=True)
        return
    choice = choose(cloud, weights, needs_gpu=True)
    (workload,) = [each for each in WORKLOADS[cloud] if each.name == choice.workload]
    assert memory_needed(weights)[0] <= workload.gib
    assert choice.gpus == workload.gpus


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("aws", None, True, None), "--workload"),
        (("aws", 200 * GIB, True, None), "quantized"),
        (("aws", 40 * GIB, True, "GPU_MEDIUM"), "do not fit"),
        (("azure", GIB, True, "GPU_MEDIUM"), "GPU_LARGE"),
        (("aws", GIB, True, "CPU"), "--engine cpu"),
        (("gcp", GIB, True, None), "gcp"),
    ],
)
def test_what_can_not_work_is_refused(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(TargetError, match=words) as caught:
        choose(*arguments)  # type: ignore[arg-type]
    assert caught.value.mistake


@pytest.mark.parametrize(
    ("weights", "gpu", "wish", "words"),
    [
        (GIB, True, "GPU_SMALL", "bfloat16"),
        (21 * GIB, True, "GPU_MEDIUM", "tight"),
        (GIB, False, "GPU_MEDIUM", "stays idle"),
        (GIB, True, "GPU_XLARGE_8", "not checked"),
    ],
)
def test_a_doubtful_wish_is_granted_with_a_warning(
    weights: int, gpu: bool, wish: str, words: str
) -> None:
    choice = choose("aws", weights, gpu, wish)
    assert choice.workload == wish
    assert any(words in warning for warning in choice.warnings)


def test_a_cloud_without_a_table_takes_what_is_named() -> None:
    choice = choose("gcp", GIB, True, "GPU_MEDIUM", "as the endpoint has it")
    assert (choice.workload, choice.reason) == ("GPU_MEDIUM", "as the endpoint has it")
    assert "not checked" in choice.warnings[0]
    with pytest.raises(TargetError, match="GPU_HUGE"):
        choose("gcp", GIB, True, "GPU_HUGE")
