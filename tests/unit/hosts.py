"""Machines that people have, as the probe describes them, and the pinned engines."""

from __future__ import annotations

from dataclasses import replace

from app.engines.host import FlashInfer, Gpu, HostFacts, Toolkit
from app.engines.sglang_flags import Release

OLD = Release("0.4.6.post5")
NEW = Release("0.5.23")

# GPUs as the driver names them. Capabilities: NVIDIA's table, https://developer.nvidia.com/cuda-gpus
T4 = Gpu("Tesla T4", (7, 5), 15102)
V100 = Gpu("Tesla V100-SXM2-16GB", (7, 0), 16151)
A10G = Gpu("NVIDIA A10G", (8, 6), 22515)
H100 = Gpu("NVIDIA H100 80GB HBM3", (9, 0), 81079)
B200 = Gpu("NVIDIA B200", (10, 0), 182632)

TOOLKIT = Toolkit("/usr/local/cuda", "/usr/local/cuda")
PREBUILT = FlashInfer("0.2.5+cu124torch2.6", prebuilt=True)
# PyPI's 0.2.5 is source code alone, and so is 0.7.2, the pin of 0.5.23.
BARE = FlashInfer("0.2.5", prebuilt=False)


def old_host(*gpus: Gpu, **changes: object) -> HostFacts:
    """A machine with the cu124 pins, as the image sets it up, without a toolkit."""
    facts = HostFacts(
        gpus=gpus,
        driver="550.54.15",
        driver_cuda=(12, 4),
        engine_cuda=(12, 4),
        shm_free_mib=8192,
        flashinfer=PREBUILT,
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def new_host(*gpus: Gpu, **changes: object) -> HostFacts:
    """The same with the cu130 pins."""
    facts = old_host(
        *gpus,
        driver="580.65.06",
        driver_cuda=(13, 0),
        engine_cuda=(13, 0),
        flashinfer=FlashInfer("0.7.2", prebuilt=False),
    )
    return replace(facts, **changes)  # type: ignore[arg-type]
