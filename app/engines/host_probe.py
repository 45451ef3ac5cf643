"""Print, as one JSON object, what this machine offers to a CUDA engine.

Run by path with the engine's Python, ``python host_probe.py``, whose packages it looks at. Only the
standard library is used, and nothing of the engine is imported: that would take many seconds. The
GPUs are those that the driver's own library shows, so ``CUDA_VISIBLE_DEVICES``, MIG and a
compatibility driver count exactly as they will for the engine.
"""

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# CUdevice_attribute in cuda.h
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
# PyTorch's wheels bring CUDA's runtime as one of these packages, with CUDA's version.
_RUNTIME_PACKAGES = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")
_NAMED = ("CUDA_HOME", "CUDA_PATH")
_INHERITED = ("CUDA_HOME", "NCCL_SHM_DISABLE")


def gpus() -> dict[str, object]:
    """The driver's CUDA version and its GPUs, or why there are none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"gpu_error": "libcuda.so.1 can't be loaded"}
    version = ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    found: dict[str, object] = {
        "driver_cuda": [version.value // 1000, version.value % 1000 // 10],
        "gpus": [],
    }
    if error := cuda.cuInit(0):
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(error, ctypes.byref(name))
        found["gpu_error"] = (name.value or str(error).encode()).decode()
        return found
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found["gpus"] = [_gpu(cuda, index) for index in range(count.value)]
    return found


def _gpu(cuda: ctypes.CDLL, index: int) -> dict[str, object]:
    device, value = ctypes.c_int(), ctypes.c_int()
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        capability.append(value.value)
    return {
        "name": name.value.decode("utf-8", "replace"),
        "capability": capability,
        "memory_mib": memory.value >> 20,
    }


def driver_version() -> str | None:
    """The kernel driver's version, such as ``550.54.15``."""
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip()
    except OSError:
        return None


def toolkit() -> dict[str, object] | None:
    """The first folder that has CUDA's compiler and library, in the engine's order of looking.

    One with the compiler alone is second best: it serves where nothing has to be linked.
    """
    second_best = None
    for origin, home in _toolkit_candidates():
        if not (home / "bin" / "nvcc").is_file():
            continue
        # The user's own choice is not doubted.
        links = origin in _NAMED or _has_library(home)
        found = {"home": str(home), "origin": origin, "links": links}
        if links:
            return found
        second_best = second_best or found
    return second_best


def _has_library(home: Path) -> bool:
    """Whether kernels can be linked. NVIDIA's packages for pip only have ``libcudart.so.13``."""
    places = ("lib64", "lib", "targets/*/lib", "lib/*-linux-gnu")
    return any(any(home.glob(f"{place}/libcudart.so")) for place in places)


def _toolkit_candidates() -> Iterator[tuple[str, Path]]:
    for variable in _NAMED:
        if os.environ.get(variable):
            yield variable, Path(os.environ[variable])
    if nvcc := shutil.which("nvcc"):
        yield "PATH", Path(nvcc).resolve().parent.parent
    yield "/usr/local/cuda", Path("/usr/local/cuda")
    for home in sorted(Path("/usr/local").glob("cuda-*"), reverse=True):
        yield "/usr/local", home
    for home in sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*")):
        yield "pip", home


def engine_cuda() -> list[int] | None:
    """The CUDA version that the engine's PyTorch was built for."""
    for package in _RUNTIME_PACKAGES:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        return [int(part) for part in version.split(".")[:2]]
    return None


def flashinfer() -> dict[str, object] | None:
    """FlashInfer: its version, and whether kernels came with it or were compiled earlier."""
    package = importlib.util.find_spec("flashinfer")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent
    prebuilt = (
        any(folder.glob("flashinfer_kernels*.so"))
        or any(folder.glob("data/aot/*/*.so"))
        or importlib.util.find_spec("flashinfer_jit_cache") is not None
    )
    home = Path(os.environ.get("FLASHINFER_WORKSPACE_BASE") or Path.home())
    compiled = any((home / ".cache" / "flashinfer").glob("**/cached_ops/*/*.so"))
    try:
        version = importlib.metadata.version("flashinfer-python")
    except importlib.metadata.PackageNotFoundError:
        version = "?"
    return {"version": version, "prebuilt": prebuilt, "compiled": compiled}


def free_shared_memory() -> int | None:
    """Free MiB in ``/dev/shm``."""
    try:
        return shutil.disk_usage("/dev/shm").free >> 20  # noqa: S108  the place, not a file in it
    except OSError:
        return None


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CC") or "gcc") or shutil.which("clang")


if __name__ == "__main__":
    facts = {
        **gpus(),
        "driver": driver_version(),
        "engine_cuda": engine_cuda(),
        "toolkit": toolkit(),
        "nvidia_smi": shutil.which("nvidia-smi") is not None,
        "ninja": shutil.which("ninja") is not None,
        "compiler": _compiler() is not None,
        "python_headers": Path(sysconfig.get_path("include"), "Python.h").is_file(),
        "shm_free_mib": free_shared_memory(),
        "flashinfer": flashinfer(),
        "environment": {name: os.environ[name] for name in _INHERITED if name in os.environ},
    }
    print(json.dumps(facts))  # noqa: T201  what this script is for
