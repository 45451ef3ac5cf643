"""What follows from the machine for the engine's start: flags, environment, or a readable refusal.

CUDA graphs are never given up here: where graphs failed for want of CUDA's compiler, everything
else failed as well, and where another kernel serves, graphs work with it (both measured on an
H200). What ``ENGINE_ARGS`` says is left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.engines.host import Gpu, HostFacts, Version, dotless, dotted
from app.engines.sglang_flags import Release
from app.errors import EngineFailed
from app.settings import Settings

# Architectures that the kernels of a release carry code for, as ``cuobjdump`` shows them for
# sgl-kernel 0.1.4 and sglang-kernel 0.4.10. Code for 8.0 runs on 8.6 too, but not on 9.0.
_KERNELS: dict[tuple[int, ...], tuple[Version, ...]] = {
    (0, 4, 6): ((7, 5), (8, 0), (9, 0)),
    (0, 5, 23): ((8, 0), (9, 0), (10, 0), (12, 0)),
}
# Where the engine's packages do not say what CUDA they were built for.
_CUDA_OF: dict[tuple[int, ...], Version] = {(0, 4, 6): (12, 4), (0, 5, 23): (13, 0)}
# Oldest driver for any CUDA of a major version: NVIDIA's "CUDA minor version compatibility".
_OLDEST_DRIVER = {11: "450", 12: "525", 13: "580"}
# From here on even the normalisation layers are FlashInfer's, compiled at run time. Seen in 0.5.17,
# the oldest 0.5 that was tried.
_COMPILES_ALWAYS = (0, 5, 17)

_TURING: Version = (7, 5)
_HOPPER: Version = (9, 0)
# NCCL's own share for a few ranks fits; Docker's default of 64 MiB does not hold it.
_SHARED_MEMORY_MIB = 1024
_PARALLEL_FLAGS = frozenset(
    {
        "--tp", "--tp-size", "--tensor-parallel-size",
        "--dp", "--dp-size", "--data-parallel-size",
        "--pp-size", "--pipeline-parallel-size",
    }
)  # fmt: skip
_GRAPHS_OFF = ("--disable-cuda-graph", "--cuda-graph-backend-")


@dataclass
class Decisions:
    """What the engine is started with beyond its usual flags."""

    flags: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """Wins over what is inherited."""
    findings: list[str] = field(default_factory=list)
    """What the user should know, and what to do about it."""

    def __str__(self) -> str:
        set_ = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*self.flags, *set_]) or "nothing to change"


def decide(facts: HostFacts, release: Release, settings: Settings) -> Decisions:
    """What to start the engine with on this machine.

    Raises:
        EngineFailed: it can't run here; says why and what helps.
    """
    arguments = settings.engine_argv
    used = facts.gpus if _is_parallel(arguments) else facts.gpus[:1]
    _check_driver(facts, release)
    for gpu in used:
        _check_kernels(gpu, release)
    decisions = Decisions()
    _choose_toolkit(decisions, facts)
    lowest = min(gpu.capability for gpu in used)
    if release.is_new:
        _check_compiling(decisions, facts, release)
    else:
        _choose_attention(decisions, facts, lowest, arguments)
        if not facts.nvidia_smi:
            raise EngineFailed(
                f"SGLang {release.version} asks nvidia-smi for the GPU's memory, and it is not "
                "there: give the container NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            )
    if lowest < (8, 0) and not _given(arguments, "--dtype"):
        decisions.flags += ["--dtype", "half"]  # no bfloat16 before Ampere
    if _is_parallel(arguments):
        _choose_transport(decisions, facts)
    decisions.findings += _missing_tools(facts, release)
    return decisions


def graphs_are_on(arguments: list[str]) -> bool:
    """Whether the user has left CUDA graphs on."""
    return not any(argument.startswith(_GRAPHS_OFF) for argument in arguments)


def _check_driver(facts: HostFacts, release: Release) -> None:
    if not facts.gpus:
        reason = facts.gpu_error or "CUDA_VISIBLE_DEVICES may hide them"
        raise EngineFailed(
            f"there is an NVIDIA driver, but it shows no GPU ({reason}): give the container the "
            "GPU (NVIDIA container toolkit), or set ENGINE_DEVICE=cpu"
        )
    needed = facts.engine_cuda or _CUDA_OF.get(release.number)
    if needed and facts.driver_cuda and facts.driver_cuda[0] < needed[0]:
        other = "; or use the cu124 engine pins" if needed[0] > 12 <= facts.driver_cuda[0] else ""
        raise EngineFailed(
            f"the NVIDIA driver {facts.driver or ''} knows CUDA up to {dotted(facts.driver_cuda)}, "
            f"and SGLang {release.version} is installed for CUDA {dotted(needed)}: update the "
            f"driver to {_OLDEST_DRIVER.get(needed[0], 'a newer one')} or newer{other}"
        )


def _check_kernels(gpu: Gpu, release: Release) -> None:
    covered = _KERNELS.get(release.number)
    major, minor = gpu.capability
    if covered is None or any(major == known and minor >= least for known, least in covered):
        return
    if gpu.capability < _TURING:
        fix = "SGLang needs compute capability 7.5 (T4) or newer: use another GPU"
    elif gpu.capability < (8, 0):
        fix = "use the cu124 engine pins, which still serve it"
    else:
        fix = "use the cu130 engine pins, with driver 580 or newer"
    names = ", ".join(f"sm_{dotless(one)}" for one in covered)
    raise EngineFailed(
        f"{gpu.name} has compute capability {dotted(gpu.capability)}, and the kernels of SGLang "
        f"{release.version} are for {names}: {fix}"
    )


def _choose_toolkit(decisions: Decisions, facts: HostFacts) -> None:
    wanted = facts.environment.get("CUDA_HOME")
    toolkit = facts.toolkit
    if toolkit is None:
        if wanted:
            decisions.findings.append("CUDA_HOME names a folder without bin/nvcc")
        return
    if wanted != toolkit.home:
        decisions.environment["CUDA_HOME"] = toolkit.home
    if wanted and toolkit.origin != "CUDA_HOME":
        decisions.findings.append(
            f"CUDA_HOME names a folder without bin/nvcc; {toolkit.home} is used instead"
        )


def _choose_attention(
    decisions: Decisions, facts: HostFacts, capability: Version, arguments: list[str]
) -> None:
    """The attention kernels of 0.4.6, which would compile FlashInfer's if they are not built."""
    if _given(arguments, "--attention-backend"):
        return
    library = facts.flashinfer
    ready = library is not None and (library.prebuilt or _can_compile(facts))
    if capability == _TURING:
        # Triton's attention was seen to fail on a T4 (sgl-project/sglang#1058), FlashInfer's to
        # work (sgl-project/sglang#1233).
        decisions.flags += ["--attention-backend", "flashinfer" if ready else "triton"]
        if not ready:
            decisions.findings.append(
                "Triton's attention may not compile for this GPU: install the FlashInfer wheel of "
                "requirements/engine-cu124-flashinfer.txt"
            )
    elif library is not None and not ready:
        # Left alone the engine takes FlashInfer because it is there, and fails to compile it.
        backend = "fa3" if capability == _HOPPER else "triton"
        decisions.flags += ["--attention-backend", backend]
        decisions.findings.append(
            f"FlashInfer {library.version} has no prebuilt kernels and can't compile them here "
            f"({_why_not_compile(facts)}); {backend} serves instead"
        )


def _check_compiling(decisions: Decisions, facts: HostFacts, release: Release) -> None:
    if release.number < _COMPILES_ALWAYS or (facts.toolkit and facts.toolkit.links):
        return
    library = facts.flashinfer
    if library and (library.prebuilt or library.compiled):
        decisions.findings.append(
            "no CUDA toolkit: kernels that are not among the prebuilt ones can't be compiled"
        )
        return
    cuda = facts.engine_cuda or _CUDA_OF.get(release.number)
    version = f" {dotted(cuda)}" if cuda else ""
    raise EngineFailed(
        f"SGLang {release.version} compiles its kernels when it starts, and "
        f"{_why_not_compile(facts)}: install the CUDA toolkit{version} and set CUDA_HOME, take an "
        "image whose name ends in -devel, or use the cu124 engine pins, which need no compiler"
    )


def _choose_transport(decisions: Decisions, facts: HostFacts) -> None:
    free = facts.shm_free_mib
    if free is None or free >= _SHARED_MEMORY_MIB or "NCCL_SHM_DISABLE" in facts.environment:
        return
    decisions.environment["NCCL_SHM_DISABLE"] = "1"
    decisions.findings.append(
        f"only {free} MiB of shared memory are free, too little for several GPUs to meet in, so "
        "they use another way that may be slower: start the container with --shm-size=8g"
    )


def _missing_tools(facts: HostFacts, release: Release) -> Iterator[str]:
    if not facts.ninja and (release.is_new or facts.toolkit):
        yield (
            "ninja is missing, and kernels can't be compiled without it: install it into the "
            "engine's environment (pip install ninja)"
        )
    if not (facts.compiler and facts.python_headers):
        missing = "Python's headers (python3-dev)" if facts.compiler else "a C compiler (gcc)"
        yield f"{missing} missing, which Triton needs to start its kernels: install it"
    needed = facts.engine_cuda or _CUDA_OF.get(release.number)
    if needed and facts.driver_cuda and facts.driver_cuda < needed:
        yield (
            f"the driver knows CUDA up to {dotted(facts.driver_cuda)} and the engine is built for "
            f"{dotted(needed)}; NVIDIA supports that within one major version, with limits"
        )


def _can_compile(facts: HostFacts) -> bool:
    return bool(facts.toolkit and facts.toolkit.links and facts.ninja and facts.compiler)


def _why_not_compile(facts: HostFacts) -> str:
    if facts.toolkit is None:
        return "there is no CUDA toolkit (nvcc)"
    if not facts.toolkit.links:
        return "the CUDA toolkit that was found, from pip, lacks libcudart.so to link with"
    return "ninja or a C compiler is missing"


def _given(arguments: list[str], flag: str) -> bool:
    return any(argument.partition("=")[0] == flag for argument in arguments)


def _is_parallel(arguments: list[str]) -> bool:
    """Whether the user asks for more than one GPU."""
    for index, argument in enumerate(arguments):
        flag, _, value = argument.partition("=")
        if flag in _PARALLEL_FLAGS:
            size = value or next(iter(arguments[index + 1 : index + 2]), "1")
            if size.isdigit() and int(size) > 1:
                return True
    return False
