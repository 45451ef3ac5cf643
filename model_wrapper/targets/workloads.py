"""Databricks' compute for serving, and which of it a model needs.

The table: https://docs.databricks.com/aws/en/machine-learning/model-serving/create-manage-serving-endpoints
and the Azure copy of that page, read in 2026. Which GPU that is can change without notice; the
names and what the SDK takes were read in databricks-sdk 0.162.

The sum is a rule of thumb and errs on the side of more memory. The one published data point it has
been held against: 32 billion parameters in 4 bits on one A10G, which it places there too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from model_wrapper.targets.base import TargetError

Cloud = Literal["aws", "azure"]
Size = Literal["Small", "Medium", "Large"]

GIB = 2**30
# CUDA context, CUDA graphs, activations, the sampler.
ENGINE_GIB = 2.0
# The least of a key/value cache to be of use, and its usual share.
CACHE_LEAST_GIB = 1.0
CACHE_SHARE = 0.10


@dataclass(frozen=True)
class Workload:
    """One kind of compute. ``gib`` is what one replica has for a model."""

    name: str
    hardware: str
    gib: float
    gpus: int = 1
    note: str = ""
    chosen: bool = True  # whether it is taken without being asked for


_CPU = (
    Workload("CPU", "4 GB of memory for each concurrent request", 4, gpus=0),
    Workload("CPU_MEDIUM", "more memory than CPU", 8, gpus=0, chosen=False),
    Workload("CPU_LARGE", "more memory than CPU_MEDIUM", 16, gpus=0, chosen=False),
)
_T4 = Workload(
    "GPU_SMALL",
    "1 x T4, 16 GB",
    14.5,
    note="a T4 has no bfloat16, and not every kernel of SGLang runs on it: only on request",
    chosen=False,
)
# Nominal sizes are above what CUDA reports; the second number is the one that counts.
WORKLOADS: Mapping[str, tuple[Workload, ...]] = {
    "aws": (
        *_CPU,
        _T4,
        Workload("GPU_MEDIUM", "1 x A10G, 24 GB", 22),
        Workload("GPU_XLARGE", "1 x H100, 80 GB", 79, note="beta, us-west-2 only", chosen=False),
        Workload("MULTIGPU_MEDIUM", "4 x A10G, 96 GB", 88, gpus=4),
    ),
    "azure": (*_CPU, _T4, Workload("GPU_LARGE", "1 x A100, 80 GB", 79)),
}
# In the SDK. Those that are in no table above are taken on request, without a check of memory.
_KNOWN = (
    *("CPU", "CPU_MEDIUM", "CPU_LARGE", "GPU_SMALL", "GPU_MEDIUM", "GPU_LARGE"),
    *("GPU_XLARGE", "GPU_XLARGE_8", "MULTIGPU_MEDIUM"),
)
_REFUSED = {
    ("azure", "GPU_MEDIUM"): "Azure has no A10G: take GPU_LARGE (A100) or GPU_SMALL (T4)",
    ("azure", "MULTIGPU_MEDIUM"): "Azure has no A10G: take GPU_LARGE (A100)",
}


@dataclass(frozen=True)
class Choice:
    """A workload and why it was taken."""

    workload: str
    reason: str
    warnings: tuple[str, ...] = ()
    gpus: int = 1


def memory_needed(weights: int) -> tuple[float, str]:
    """GiB that serving takes, and the sum in words."""
    gib = weights / GIB
    cache = max(CACHE_LEAST_GIB, CACHE_SHARE * gib)
    total = gib + cache + ENGINE_GIB
    return total, (
        f"{gib:.1f} GiB weights + {cache:.1f} GiB cache + {ENGINE_GIB:.1f} GiB engine"
        f" = {total:.1f} GiB"
    )


def choose(
    cloud: str,
    weights: int | None,
    needs_gpu: bool,
    wish: str | None = None,
    whose: str = "as asked for",
) -> Choice:
    """The workload for a model: the wished one if it can work, else the smallest that fits.

    Args:
        cloud: ``aws`` or ``azure``; with a wish, any.
        weights: bytes of the model's weights, None when unknown.
        needs_gpu: whether the model was logged with an engine for GPUs.
        wish: what is taken if it can work.
        whose: where the wish comes from, in words.

    Raises:
        TargetError: nothing fits, the wish can't work, or there is nothing to go by.
    """
    table = WORKLOADS.get(cloud, ())
    if wish is not None:
        return _checked(cloud, table, weights, needs_gpu, wish, whose)
    if not table:
        raise TargetError(
            f"what {cloud} has is in no table of ours: name its compute with --workload", True
        )
    if weights is None:
        raise TargetError(
            "the size of the model's weights is not known, so the workload can't be chosen: "
            f"give --workload, one of {', '.join(_names(table))}",
            True,
        )
    need, words = memory_needed(weights)
    for workload in sorted(table, key=lambda entry: entry.gib):
        if workload.chosen and bool(workload.gpus) == needs_gpu and need <= workload.gib:
            reason = f"{words}; the smallest that fits is {workload.name} ({workload.hardware})"
            return Choice(workload.name, reason, gpus=workload.gpus)
    where = "GPU" if needs_gpu else "CPU"
    raise TargetError(
        f"{words}: no {where} workload on {cloud} that is taken unasked has as much. Use a "
        "quantized model, or name a larger workload with --workload "
        f"({', '.join(_names(table))})",
        True,
    )


def _checked(
    cloud: str,
    table: tuple[Workload, ...],
    weights: int | None,
    needs_gpu: bool,
    wish: str,
    whose: str,
) -> Choice:
    if refusal := _REFUSED.get((cloud, wish)):
        raise TargetError(f"{wish} can't be had: {refusal}", True)
    workload = next((entry for entry in table if entry.name == wish), None)
    if workload is None:
        if wish not in _KNOWN:
            names = ", ".join(_names(table) or _KNOWN)
            raise TargetError(f"no workload {wish!r} on {cloud}: {names}", True)
        warning = f"{wish} is in no table for {cloud}: whether the model fits was not checked"
        return Choice(wish, whose, (warning,))
    if needs_gpu and not workload.gpus:
        raise TargetError(
            f"{wish} has no GPU, but the model was logged with an engine for GPUs: "
            "log it again with --engine cpu, or choose a GPU workload",
            True,
        )
    warnings = [f"{wish}: {workload.note}"] if workload.note else []
    if not needs_gpu and workload.gpus:
        warnings.append(f"the model was logged with the CPU engine; {wish}'s GPU stays idle")
    if weights is None:
        return Choice(wish, whose, tuple(warnings), workload.gpus)
    if weights / GIB > workload.gib:
        raise TargetError(
            f"{weights / GIB:.1f} GiB of weights do not fit on {wish} ({workload.hardware}): "
            "name a larger --workload",
            True,
        )
    need, words = memory_needed(weights)
    if need > workload.gib:
        warnings.append(f"tight: {words}, and {wish} has about {workload.gib:g} GiB")
    return Choice(wish, f"{whose}; {words}", tuple(warnings), workload.gpus)


def _names(table: tuple[Workload, ...]) -> list[str]:
    return [entry.name for entry in table]
