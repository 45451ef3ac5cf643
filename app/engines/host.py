"""What the machine offers to a CUDA engine, as data."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

log = logging.getLogger(__name__)

_PROBE = Path(__file__).with_name("host_probe.py")
# The driver wakes up GPUs that nobody uses, which takes seconds on a host with eight of them.
_TIMEOUT = 30.0

Version = tuple[int, int]


@dataclass(frozen=True)
class Gpu:
    """One GPU that the engine will see."""

    name: str
    capability: Version
    memory_mib: int

    def __str__(self) -> str:
        return f"{self.name} (sm_{dotless(self.capability)}, {self.memory_mib} MiB)"


@dataclass(frozen=True)
class Toolkit:
    """A folder with ``nvcc``."""

    home: str
    origin: str
    """How it was found: a variable's name, ``PATH``, a folder, or ``pip``."""
    links: bool = True
    """Whether CUDA's library is there in the form that a linker wants."""


@dataclass(frozen=True)
class FlashInfer:
    """The engine's kernel library, as far as it is there."""

    version: str
    prebuilt: bool
    """Kernels came with the package."""
    compiled: bool = False
    """Kernels were compiled by an earlier start."""

    def __str__(self) -> str:
        kernels = "prebuilt" if self.prebuilt else "compiled earlier" if self.compiled else "no"
        return f"FlashInfer {self.version} with {kernels} kernels"


@dataclass(frozen=True)
class HostFacts:
    """What ``host_probe.py`` found; None stands for not known."""

    gpus: tuple[Gpu, ...] = ()
    gpu_error: str | None = None
    driver: str | None = None
    driver_cuda: Version | None = None
    """Newest CUDA version that the driver knows."""
    engine_cuda: Version | None = None
    """CUDA version that the engine was built for."""
    toolkit: Toolkit | None = None
    nvidia_smi: bool = True
    ninja: bool = True
    compiler: bool = True
    python_headers: bool = True
    shm_free_mib: int | None = None
    flashinfer: FlashInfer | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Those of the inherited variables that decisions depend on."""

    def __str__(self) -> str:
        gpus = ", ".join(map(str, self.gpus)) or "no GPU"
        cuda = f" for CUDA {dotted(self.driver_cuda)}" if self.driver_cuda else ""
        where = f"CUDA toolkit at {self.toolkit.home}" if self.toolkit else "no CUDA toolkit"
        missing = {
            "ninja": self.ninja,
            "C compiler": self.compiler,
            "Python.h": self.python_headers,
            "nvidia-smi": self.nvidia_smi,
        }
        parts = [gpus, f"driver {self.driver or '?'}{cuda}", where]
        parts += [f"no {name}" for name, is_there in missing.items() if not is_there]
        parts.append(str(self.flashinfer) if self.flashinfer else "no FlashInfer")
        parts.append(f"{self.shm_free_mib} MiB free in /dev/shm")
        return ", ".join(parts)


_FACTS = TypeAdapter(HostFacts)


async def gather(python: Path, environment: dict[str, str]) -> HostFacts | None:
    """The facts as the engine's Python sees them, or None if they can't be found out.

    Args:
        python: the engine's interpreter.
        environment: that the engine will be started with.
    """
    process = await asyncio.create_subprocess_exec(
        # Without -P the modules beside the script would hide packages of the same name.
        *(str(python), "-P", str(_PROBE)),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(_TIMEOUT):
            output, _ = await process.communicate()
        return _FACTS.validate_json(output)
    except TimeoutError:
        log.warning("the host could not be looked at within %.0f s", _TIMEOUT)
    except ValidationError:
        log.warning("the host could not be looked at: the engine's Python ran no probe")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return None


def dotted(version: Version) -> str:
    """``(12, 4)`` as ``12.4``."""
    return f"{version[0]}.{version[1]}"


def dotless(version: Version) -> str:
    """``(8, 6)`` as ``86``, the way NVIDIA names its architectures."""
    return f"{version[0]}{version[1]}"
