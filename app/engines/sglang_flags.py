"""SGLang's command line, which differs between the versions that the images pin.

Read from each version's ``server_args.py`` and tried with 0.4.6.post5 (CUDA 12.4), 0.5.17 and
0.5.23. Flags that keep their name in all of them are used plainly.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.engines.model_traits import Parsers
from app.settings import Settings

# Without a bound the pool takes its share of all memory; this serves a few users of a small model.
_CPU_POOL_TOKENS = 16384


@dataclass(frozen=True)
class Release:
    """An SGLang version, as far as its flags depend on it."""

    version: str

    @property
    def number(self) -> tuple[int, ...]:
        """``0.4.6.post5`` as ``(0, 4, 6)``."""
        return tuple(int(part) for part in self.version.split(".")[:3] if part.isdigit())

    @property
    def is_new(self) -> bool:
        """0.5 and later: more parsers, ``--skip-server-warmup``."""
        return self.number >= (0, 5)

    @property
    def graph_size_flag(self) -> str:
        """Split by phase between 0.5.17 and 0.5.23, where the old name is ambiguous."""
        return "--cuda-graph-max-bs" + ("-decode" if self.number >= (0, 5, 19) else "")


def launch_argv(
    settings: Settings,
    *,
    python: Path,
    release: Release,
    model_path: Path,
    model_name: str,
    port: int,
    device: str,
    parsers: Parsers,
    host_flags: Sequence[str] = (),
) -> list[str]:
    """The engine's argument list.

    ``host_flags`` are those that the machine asks for (``host_decisions.py``).

    ``ENGINE_ARGS`` comes last, so that it wins: argparse takes the last of equal flags.
    """
    flags: dict[str, object] = {
        "--model-path": model_path,
        "--served-model-name": model_name,
        # Never reachable from outside: the gateway owns authentication and limits.
        "--host": "127.0.0.1",
        "--port": port,
        "--tool-call-parser": parsers.tool_call,
        "--reasoning-parser": parsers.reasoning,
        "--context-length": settings.context_length,
        "--mem-fraction-static": settings.mem_fraction_static,
        "--max-total-tokens": settings.max_total_tokens,
        release.graph_size_flag: settings.cuda_graph_max_bs,
        # Our own log has a line for each request.
        "--log-level-http": "warning",
    }
    switches = ["--enable-metrics", "--enable-cache-report"]
    if release.is_new:
        # Ours follows, with sampling, which SGLang's own greedy one leaves cold.
        switches.append("--skip-server-warmup")
    if device == "cpu":
        flags |= {"--device": "cpu", "--attention-backend": "torch_native"}
        flags["--max-total-tokens"] = settings.max_total_tokens or _CPU_POOL_TOKENS
        switches.append("--disable-overlap-schedule")
    argv = [str(python), "-m", "sglang.launch_server"]
    for flag, value in flags.items():
        if value is not None:
            argv += [flag, str(value)]
    return [*argv, *switches, *host_flags, *settings.engine_argv]


def launch_environment(base: dict[str, str], *, python: Path, device: str) -> dict[str, str]:
    """The engine's environment variables."""
    environment = {
        # The model is on disk by now; a hub that can't be reached must not delay the start.
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **base,
        # ninja and nvcc that come as Python packages are found beside the interpreter.
        "PATH": os.pathsep.join([str(python.parent), base.get("PATH", os.defpath)]),
    }
    if device == "cpu":
        # Two spinning OpenMP threads on shared cores made generation ten times slower.
        environment.setdefault("OMP_NUM_THREADS", "1")
        # SGLang compiles a few small functions at the first request that needs them, the one for
        # repetition_penalty among them. That took 17 s on a CPU, during which nobody was answered,
        # and without a C++ compiler it ended the engine.
        environment.setdefault("TORCHDYNAMO_DISABLE", "1")
    return environment
