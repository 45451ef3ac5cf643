"""The engine's command line for the versions that are pinned, with and without a GPU."""

import os
from pathlib import Path
from typing import Any

import pytest

from app.engines.model_traits import Parsers
from app.engines.sglang_flags import Release, launch_argv, launch_environment
from app.settings import Settings

OLD, NEW = Release("0.4.6.post5"), Release("0.5.23")
PYTHON = Path("/opt/engine/bin/python")


def argv(
    release: Release, device: str, parsers: Parsers | None = None, **settings: Any
) -> list[str]:
    return launch_argv(
        Settings(**settings),
        python=PYTHON,
        release=release,
        model_path=Path("/models/日本 語"),
        model_name="m",
        port=30000,
        device=device,
        parsers=parsers or Parsers("qwen25", None),
    )


def value(arguments: list[str], flag: str) -> str | None:
    assert arguments.count(flag) <= 1
    return arguments[arguments.index(flag) + 1] if flag in arguments else None


@pytest.mark.parametrize("release", [OLD, NEW])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_every_engine_is_told(release: Release, device: str) -> None:
    told = argv(release, device)
    assert told[:3] == [str(PYTHON), "-m", "sglang.launch_server"]
    assert value(told, "--model-path") == "/models/日本 語"
    assert value(told, "--served-model-name") == "m"
    assert value(told, "--host") == "127.0.0.1"
    assert value(told, "--port") == "30000"
    assert "--enable-metrics" in told
    assert "--enable-cache-report" in told
    assert all(isinstance(each, str) and "None" not in each for each in told)
    assert not {"--tp", "--dp", "--api-key", "--disable-cuda-graph"} & set(told)


def test_flags_that_only_newer_versions_have() -> None:
    assert "--skip-server-warmup" in argv(NEW, "cuda")
    assert "--skip-server-warmup" not in argv(OLD, "cuda")


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.4.6.post5", "--cuda-graph-max-bs"),
        ("0.5.17", "--cuda-graph-max-bs"),
        ("0.5.23", "--cuda-graph-max-bs-decode"),
    ],
)
def test_the_size_of_graphs_has_the_name_of_its_version(version: str, flag: str) -> None:
    assert value(argv(Release(version), "cuda", cuda_graph_max_bs=8), flag) == "8"
    assert not any(each.startswith("--cuda-graph") for each in argv(Release(version), "cuda"))


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_cpu_gets_kernels_that_run_there_and_a_bounded_pool(release: Release) -> None:
    told = argv(release, "cpu")
    assert value(told, "--device") == "cpu"
    assert value(told, "--attention-backend") == "torch_native"
    assert value(told, "--max-total-tokens") == "16384"
    assert value(argv(release, "cpu", max_total_tokens=99), "--max-total-tokens") == "99"
    on_gpu = argv(release, "cuda")
    assert not {"--device", "--attention-backend", "--max-total-tokens"} & set(on_gpu)


def test_settings_and_parsers_become_flags_only_when_they_are_there() -> None:
    told = argv(NEW, "cuda", Parsers(None, "qwen3"), context_length=4096, mem_fraction_static=0.5)
    assert value(told, "--context-length") == "4096"
    assert value(told, "--mem-fraction-static") == "0.5"
    assert value(told, "--reasoning-parser") == "qwen3"
    assert "--tool-call-parser" not in told
    assert "--reasoning-parser" not in argv(NEW, "cuda")


def test_the_users_own_arguments_come_last() -> None:
    own = "--chat-template 'my file; rm' --host 0.0.0.0"
    told = argv(NEW, "cpu", engine_args=own)
    assert told[-4:] == ["--chat-template", "my file; rm", "--host", "0.0.0.0"]


def test_what_the_machine_asks_for_comes_before_that() -> None:
    told = launch_argv(
        Settings(engine_args="--own"),
        python=PYTHON,
        release=NEW,
        model_path=Path("/m"),
        model_name="m",
        port=1,
        device="cuda",
        parsers=Parsers(None, None),
        host_flags=["--attention-backend", "triton"],
    )
    assert told[-3:] == ["--attention-backend", "triton", "--own"]


@pytest.mark.parametrize(
    ("version", "number", "is_new"),
    [
        ("0.4.6.post5", (0, 4, 6), False),
        ("0.4.10.post2", (0, 4, 10), False),
        ("0.5.0rc1", (0, 5), True),
        ("0.5.23", (0, 5, 23), True),
        ("0.5.23+cpu", (0, 5), True),
        ("1.0", (1, 0), True),
        ("unknown", (), False),
    ],
)
def test_versions(version: str, number: tuple[int, ...], is_new: bool) -> None:
    assert (Release(version).number, Release(version).is_new) == (number, is_new)


def test_the_environment_keeps_the_users_choices_and_finds_the_engines_tools() -> None:
    plain = launch_environment({"PATH": "/bin"}, python=PYTHON, device="cpu")
    assert plain["PATH"].split(os.pathsep) == ["/opt/engine/bin", "/bin"]
    assert plain["HF_HUB_OFFLINE"] == "1"
    assert plain["OMP_NUM_THREADS"] == "1"
    own = {"OMP_NUM_THREADS": "4", "HF_HUB_OFFLINE": "0"}
    assert own.items() <= launch_environment(own, python=PYTHON, device="cpu").items()
    assert "OMP_NUM_THREADS" not in launch_environment({}, python=PYTHON, device="cuda")
    assert own == {"OMP_NUM_THREADS": "4", "HF_HUB_OFFLINE": "0"}
