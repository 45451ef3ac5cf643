"""What follows from a machine for the engine's start, for machines that people have."""

from __future__ import annotations

import pytest

from app.engines.host import FlashInfer, Gpu, HostFacts, Toolkit
from app.engines.host_decisions import Decisions, decide, graphs_are_on
from app.engines.sglang_flags import Release
from app.errors import EngineFailed
from app.settings import Settings
from tests.unit.hosts import A10G, B200, BARE, H100, NEW, OLD, T4, TOOLKIT, V100, new_host, old_host


def decided(facts: HostFacts, release: Release = OLD, engine_args: str = "") -> Decisions:
    return decide(facts, release, Settings(engine_args=engine_args))


def refusal(facts: HostFacts, release: Release = OLD) -> str:
    with pytest.raises(EngineFailed) as caught:
        decided(facts, release)
    return caught.value.message


def test_a10g_with_prebuilt_kernels_needs_nothing() -> None:
    # sgl-kernel 0.1.4 has code for sm_80 (cuobjdump), which runs on sm_86 (CUDA guide, "binary
    # compatibility").
    assert decided(old_host(A10G)) == Decisions()


def test_a10g_without_prebuilt_kernels_and_toolkit_attends_with_triton() -> None:
    # PyPI's FlashInfer would be compiled at run time and asks for CUDA_HOME (sglang#3952).
    decisions = decided(old_host(A10G, flashinfer=BARE))
    assert decisions.flags == ["--attention-backend", "triton"]
    assert "no CUDA toolkit (nvcc)" in decisions.findings[0]


def test_a_toolkit_makes_bare_flashinfer_usable() -> None:
    decisions = decided(old_host(A10G, flashinfer=BARE, toolkit=TOOLKIT))
    assert decisions == Decisions(environment={"CUDA_HOME": "/usr/local/cuda"})


def test_without_flashinfer_the_engine_finds_its_own_way() -> None:
    # Measured on an H200: 0.4.6.post5 without the package chose fa3 and captured CUDA graphs, with
    # CUDA_HOME=/nonexistent and no nvcc.
    assert decided(old_host(H100, flashinfer=None)).flags == []


@pytest.mark.parametrize(
    ("facts", "backend"),
    [
        # sglang#1233: FlashInfer serves on a T4. sglang#1058: Triton's attention failed there.
        (old_host(T4), "flashinfer"),
        (old_host(T4, flashinfer=BARE, toolkit=TOOLKIT), "flashinfer"),
        (old_host(T4, flashinfer=BARE), "triton"),
        (old_host(T4, flashinfer=None), "triton"),
    ],
)
def test_t4_computes_in_half_precision(facts: HostFacts, backend: str) -> None:
    # No bfloat16 before compute capability 8.0 (CUDA guide, compute capabilities).
    decisions = decided(facts)
    assert decisions.flags == ["--attention-backend", backend, "--dtype", "half"]
    assert any("FlashInfer wheel" in line for line in decisions.findings) == (backend == "triton")


def test_t4_has_no_kernels_in_the_new_line() -> None:
    # sglang-kernel 0.4.10: sm_80 89 90 100 120 (cuobjdump); the failure as seen: sglang#24224.
    message = refusal(new_host(T4, toolkit=TOOLKIT), NEW)
    assert "Tesla T4 has compute capability 7.5" in message
    assert "use the cu124 engine pins" in message


@pytest.mark.parametrize(("host", "release"), [(old_host, OLD), (new_host, NEW)])
def test_v100_is_too_old_for_both_lines(host: object, release: Release) -> None:
    # "SGLang only supports sm75 and above" (model_runner.py of 0.4.6.post5).
    assert "7.5 (T4) or newer" in refusal(host(V100, toolkit=TOOLKIT), release)  # type: ignore[operator]


def test_b200_on_cu124_is_sent_to_cu130() -> None:
    # sgl-kernel 0.1.4: sm_75 80 89 90, no PTX that a newer GPU could translate (cuobjdump).
    message = refusal(old_host(B200))
    assert "NVIDIA B200 has compute capability 10.0" in message
    assert "SGLang 0.4.6.post5 are for sm_75, sm_80, sm_90" in message
    assert "cu130 engine pins, with driver 580" in message


@pytest.mark.parametrize("gpu", [A10G, H100, B200])
def test_the_new_line_with_a_toolkit(gpu: Gpu) -> None:
    decisions = decided(new_host(gpu, toolkit=TOOLKIT), NEW)
    assert decisions == Decisions(environment={"CUDA_HOME": "/usr/local/cuda"})


def test_h100_of_the_new_line_without_a_toolkit_is_refused_before_the_load() -> None:
    # Measured on an H200 with 0.5.17: RMSNorm itself is compiled; it died 57 s after the launch.
    message = refusal(new_host(H100), NEW)
    assert "there is no CUDA toolkit (nvcc)" in message
    assert "install the CUDA toolkit 13.0 and set CUDA_HOME" in message


def test_the_old_line_without_a_toolkit_on_hopper_keeps_fa3() -> None:
    # FA3 comes compiled with sgl-kernel (flash_ops: sm_80 86 90a); it served with graphs on.
    assert decided(old_host(H100, flashinfer=BARE)).flags == ["--attention-backend", "fa3"]


@pytest.mark.parametrize(
    "library",
    [FlashInfer("0.7.2", prebuilt=True), FlashInfer("0.7.2", prebuilt=False, compiled=True)],
)
def test_kernels_that_are_there_need_no_toolkit(library: FlashInfer) -> None:
    # Measured on an H200: CUDA_HOME=/nonexistent with carried kernels, full speed, graphs on.
    decisions = decided(new_host(H100, flashinfer=library), NEW)
    assert decisions.flags == []
    assert "can't be compiled" in decisions.findings[0]


def test_pips_compiler_can_not_link() -> None:
    # nvidia-cuda-runtime 13.0.96 has lib/libcudart.so.13 and no libcudart.so (its wheel's list);
    # FlashInfer links with -lcudart (flashinfer/jit/cpp_ext.py).
    pip = Toolkit("/opt/engine/lib/python3.12/site-packages/nvidia/cu13", "pip", links=False)
    assert "lacks libcudart.so" in refusal(new_host(H100, toolkit=pip), NEW)


def test_releases_in_between_are_not_judged() -> None:
    assert decided(new_host(H100), Release("0.5.10")).flags == []


def test_old_driver_is_refused_by_name() -> None:
    # CUDA 12.x needs driver 525, 13.x needs 580:
    # https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    message = refusal(old_host(A10G, driver="470.82.01", driver_cuda=(11, 4)))
    assert "driver 470.82.01 knows CUDA up to 11.4" in message
    assert "installed for CUDA 12.4" in message
    assert "525 or newer" in message


def test_a_driver_of_cuda_12_can_not_run_the_new_line() -> None:
    # The same page; seen as "unsatisfied condition" in theroyallab/tabbyAPI#324.
    message = refusal(new_host(A10G, driver="550.54.15", driver_cuda=(12, 4), toolkit=TOOLKIT), NEW)
    assert "update the driver to 580 or newer; or use the cu124 engine pins" in message


def test_an_older_driver_of_the_same_major_version_only_gets_a_note() -> None:
    # The same page: minor version compatibility.
    decisions = decided(old_host(A10G, driver="535.183.01", driver_cuda=(12, 2)))
    assert decisions.flags == []
    assert "CUDA up to 12.2" in decisions.findings[0]


def test_databricks_like_container() -> None:
    # No nvcc ("no CUDA build toolchain"), 64 MiB of /dev/shm (sglang#1986), several A10G.
    facts = old_host(A10G, A10G, A10G, A10G, shm_free_mib=64)
    decisions = decided(facts, engine_args="--tp-size 4")
    assert decisions.environment == {"NCCL_SHM_DISABLE": "1"}
    assert decisions.flags == []
    assert "--shm-size" in decisions.findings[0]


@pytest.mark.parametrize(
    ("engine_args", "changes"),
    [
        ("", {}),  # one GPU talks to nobody
        ("--tp-size 1", {}),
        ("--tp-size 4", {"shm_free_mib": 1024}),
        ("--tp=4", {"environment": {"NCCL_SHM_DISABLE": "0"}}),  # the user's own choice
    ],
)
def test_shared_memory_is_left_alone(engine_args: str, changes: dict[str, object]) -> None:
    facts = old_host(A10G, A10G, A10G, A10G, **{"shm_free_mib": 64, **changes})
    assert decided(facts, engine_args=engine_args).environment == {}


def test_all_gpus_of_a_parallel_engine_are_checked() -> None:
    mixed = old_host(A10G, B200)
    assert decided(mixed) == Decisions()
    with pytest.raises(EngineFailed, match="B200"):
        decided(mixed, engine_args="--tp 2")


def test_engine_args_win() -> None:
    decisions = decided(
        old_host(T4), engine_args="--attention-backend=triton --dtype float32 --disable-cuda-graph"
    )
    assert decisions == Decisions()


@pytest.mark.parametrize(
    ("arguments", "on"),
    [
        ([], True),
        (["--cuda-graph-max-bs", "8"], True),
        (["--disable-cuda-graph"], False),
        (["--cuda-graph-backend-decode=disabled"], False),
    ],
)
def test_graphs_stay_on_unless_the_user_says_so(arguments: list[str], on: bool) -> None:
    assert graphs_are_on(arguments) is on


def test_a_wrong_cuda_home_is_replaced() -> None:
    # Measured: CUDA_HOME=/nonexistent kills 0.5.17 although /usr/local/cuda is there.
    facts = new_host(H100, toolkit=TOOLKIT, environment={"CUDA_HOME": "/nonexistent"})
    decisions = decided(facts, NEW)
    assert decisions.environment == {"CUDA_HOME": "/usr/local/cuda"}
    assert "/usr/local/cuda is used instead" in decisions.findings[0]


def test_a_right_cuda_home_stays() -> None:
    facts = new_host(
        H100,
        toolkit=Toolkit("/opt/cuda", "CUDA_HOME"),
        environment={"CUDA_HOME": "/opt/cuda"},
    )
    assert decided(facts, NEW) == Decisions()


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"ninja": False}, "pip install ninja"),  # FileNotFoundError: 'ninja' (fak#923)
        ({"compiler": False}, "gcc"),  # Triton's launcher stubs, seen on an H200
        ({"python_headers": False}, "python3-dev"),
    ],
)
def test_missing_tools_are_named(changes: dict[str, object], fix: str) -> None:
    findings = decided(new_host(H100, toolkit=TOOLKIT, **changes), NEW).findings
    assert len(findings) == 1
    assert fix in findings[0]


def test_the_old_line_needs_nvidia_smi() -> None:
    # get_nvgpu_memory_capacity of 0.4.6.post5 runs it; containers have it with "utility".
    assert "compute,utility" in refusal(old_host(A10G, nvidia_smi=False))


def test_no_visible_gpu() -> None:
    message = refusal(old_host(gpu_error="CUDA_ERROR_NO_DEVICE"))
    assert "shows no GPU (CUDA_ERROR_NO_DEVICE)" in message
    assert "ENGINE_DEVICE=cpu" in message
