"""What the probe finds on a machine, and how it is told."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from app.engines.host import FlashInfer, Toolkit, gather
from app.engines.host_decisions import decide
from app.engines.model_traits import Parsers
from app.engines.sglang_flags import launch_argv
from app.settings import Settings
from tests.unit.hosts import A10G, BARE, OLD, old_host


def test_facts_in_words() -> None:
    facts = old_host(A10G, ninja=False, shm_free_mib=64, flashinfer=BARE)
    assert str(facts) == (
        "NVIDIA A10G (sm_86, 22515 MiB), driver 550.54.15 for CUDA 12.4, no CUDA toolkit, "
        "no ninja, FlashInfer 0.2.5 with no kernels, 64 MiB free in /dev/shm"
    )
    assert str(decide(facts, OLD, Settings())) == "--attention-backend triton"


def test_flags_of_the_host_come_before_the_users() -> None:
    argv = launch_argv(
        Settings(engine_args="--dtype float32"),
        python=Path("python"),
        release=OLD,
        model_path=Path("model"),
        model_name="model",
        port=1,
        device="cuda",
        parsers=Parsers(None, None),
        host_flags=["--attention-backend", "triton"],
    )
    assert argv[-4:] == ["--attention-backend", "triton", "--dtype", "float32"]


async def test_the_probe_looks_at_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.touch()
    package = tmp_path / "packages" / "flashinfer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('never imported')")
    (package / "flashinfer_kernels.abi3.so").touch()
    environment = {
        "CUDA_HOME": str(tmp_path / "cuda"),
        "PYTHONPATH": str(package.parent),
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
    }
    async with asyncio.timeout(10):
        facts = await gather(Path(sys.executable), environment)
    assert facts is not None
    assert facts.toolkit == Toolkit(str(tmp_path / "cuda"), "CUDA_HOME")
    assert facts.flashinfer == FlashInfer("?", prebuilt=True)
    assert facts.environment == {"CUDA_HOME": str(tmp_path / "cuda")}
    assert not facts.ninja
    assert not facts.compiler


async def test_a_python_without_the_probe_is_not_held_against_the_machine(tmp_path: Path) -> None:
    odd = tmp_path / "python"
    odd.write_text(f"#!{sys.executable}\nprint({json.dumps('hello')})\n")
    odd.chmod(0o755)
    assert await gather(odd, {}) is None
