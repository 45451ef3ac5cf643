"""SGLang on a plain CPU: an out-of-tree platform that needs none of SGLang's compiled kernels.

SGLang's built-in CPU engine wants `sgl_kernel`, whose wheels exist for CUDA only, and vLLM's
operators. SGLang also lets a separate package register a platform of its own; with such a platform
every operator takes its pure PyTorch path. This package is that platform, found by SGLang through
the entry points in pyproject.toml:

* `sglang.srt.platforms` -> `activate`, which names the platform class;
* `sglang.srt.plugins` -> `register`, which runs in every SGLang process before the model code.
"""

import torch

_PLATFORM = "sglang_plaincpu.platform:PlainCpuPlatform"

# An operator schema lives as long as the Library object that defined it.
_libraries: list[torch.library.Library] = []


def activate() -> str | None:
    """Name the platform class for SGLang, or None where a GPU is there and should be used."""
    if torch.cuda.is_available():
        return None
    _declare_torchvision_operators()
    return _PLATFORM


def register() -> None:
    """Prepare one SGLang process; called before SGLang imports torchvision."""
    _declare_torchvision_operators()


def _declare_torchvision_operators() -> None:
    """Make `import torchvision` work beside a CPU build of torch.

    PyPI's torchvision for x86-64 is linked against CUDA, so beside a CPU torch its compiled
    operators don't load. SGLang imports torchvision whatever the model is, and that import attaches
    fake implementations to two operators without asking whether they exist. Their schemas are all
    it needs; nothing ever calls them for a language model.
    """
    if hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _libraries.append(library)
