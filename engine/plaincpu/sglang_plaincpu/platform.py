"""The platform class that SGLang instantiates when `activate` names it."""

import torch
from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform


class PlainCpuPlatform(CpuDeviceMixin, SRTPlatform):
    """A CPU that calls itself out-of-tree.

    Being out-of-tree (`OOT`) is the point: for the built-in CPU platform SGLang imports vLLM's
    compiled operators even where it never calls them; for an out-of-tree one it dispatches each
    operator to its native PyTorch code.
    """

    _enum = PlatformEnum.OOT
    # Nothing optional (graphs, compiled memory pools, ...) is claimed.
    capabilities = PlatformCapabilities()

    def get_default_attention_backend(self) -> str:
        """Use the one attention backend that is written in PyTorch alone."""
        return "torch_native"

    def is_pin_memory_available(self, device: str | torch.device | None = None) -> bool:
        """Refuse pinned memory: it speeds up copies to a GPU, and a CPU torch can't allocate it."""
        return False
