"""The container files repeat some facts of the program; these tests fail when the two part."""

import re
from pathlib import Path

import pytest

from app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
# Names with their defaults, from lines such as `#PORT=8080`.
DOCUMENTED = dict(
    re.findall(r"^#([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE)
)
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_is_documented_with_its_default(field: str) -> None:
    shown = DOCUMENTED[field.upper()]
    default = Settings.model_fields[field].default
    if default is None:
        assert shown == ""
    elif isinstance(default, float):
        assert float(shown) == default
    else:
        assert shown.lower() == str(default).lower()


def test_every_name_that_compose_reads_is_documented() -> None:
    # ${NAME}, ${NAME:-default}, and names without a value, which compose takes from the environment
    names = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE))
    names |= set(re.findall(r"^ +([A-Z_]+):$", COMPOSE, re.MULTILINE))
    assert names - set(DOCUMENTED) == {"COMPOSE_PROJECT_NAME"}


def test_every_documented_name_is_used() -> None:
    settings = {field.upper() for field in Settings.model_fields}
    assert [
        name
        for name in DOCUMENTED
        if name not in settings and not re.search(rf"\b{name}\b", COMPOSE)
    ] == []


@pytest.mark.parametrize(
    "argument", ["FLASHINFER_WHEEL", "TORCH_CPU_INDEX", "ENGINE_PINS", "VERSION"]
)
def test_build_arguments_are_documented_with_their_default(argument: str) -> None:
    match = re.search(rf"^ARG {argument}=(.+)$", DOCKERFILE, re.MULTILINE)
    assert match is not None
    assert DOCUMENTED[argument] == match[1]


@pytest.mark.parametrize("pins", ["cu124", "cu130", "cpu"])
def test_image_labels_tell_the_pinned_versions(pins: str) -> None:
    stage = re.search(rf"^FROM .* AS base-{pins}\nLABEL ((?:.*\\\n)*.*)", DOCKERFILE, re.MULTILINE)
    assert stage is not None
    labels = dict(re.findall(r'chat-server\.engine\.(\w+)="([^"]+)"', stage[1]))
    files = (ROOT / "requirements").glob(f"engine-{pins}*.txt")
    pinned = dict(
        re.findall(r"^([\w-]+)==([^\s+]+)", "\n".join(f.read_text() for f in files), re.MULTILINE)
    )
    assert labels["pins"] == pins
    assert labels["sglang"] == pinned["sglang"]
    assert labels["torch"] == pinned["torch"]


def stage(name: str) -> str:
    """The instructions of a build stage."""
    found = re.search(rf"^FROM [^\n]* AS {name}\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S)
    assert found is not None
    return found[1]


def variables(name: str) -> dict[str, str]:
    """The environment that a build stage sets."""
    return dict(re.findall(r"^(?:ENV|   ) ?(\w+)=(\S+)(?: \\)?$", stage(name), re.M))


def test_kernels_can_be_compiled_in_the_gpu_image() -> None:
    """A runtime base has no nvcc, and FlashInfer asks for CUDA_HOME by name."""
    bases = re.findall(r"\$\{BASE_IMAGE:-(nvidia/cuda:\S+)\}", DOCKERFILE)
    assert len(bases) == 2
    assert all("-devel-" in base for base in bases)
    assert variables("cuda")["CUDA_HOME"] == "/usr/local/cuda"


def test_compiled_kernels_outlive_the_container() -> None:
    """Every cache of kernels lies in the volume, and each set of pins has a volume of its own."""
    (mounted,) = re.findall(r"^      - kernels:(\S+)$", COMPOSE, re.M)
    caches = {
        k: v for k, v in variables("cuda").items() if re.fullmatch(r"\w+_CACHE_(DIR|PATH)", k)
    }
    assert {"CUDA_CACHE_PATH", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"} <= caches.keys()
    assert [name for name, path in caches.items() if not path.startswith(f"{mounted}/")] == []
    assert re.search(r"^    name: \S*kernels-\$\{ENGINE_PINS:-cu124\}$", COMPOSE, re.M)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_model_that_still_loads_is_never_unhealthy(target: str) -> None:
    (hours,) = re.findall(r"^HEALTHCHECK --start-period=(\d+)h ", stage(target), re.M)
    (composed,) = re.findall(r"start_period: \$\{HEALTH_START_PERIOD:-(\d+)h\}", COMPOSE)
    longest_load = Settings.model_fields["engine_start_timeout"].default
    assert min(int(hours), int(composed)) * 3600 > longest_load


def test_an_old_driver_is_explained_by_us_and_not_by_the_container_runtime() -> None:
    """NVIDIA's base images have the runtime refuse old drivers, in words that help nobody."""
    assert variables("cuda")["NVIDIA_DISABLE_REQUIRE"] == "1"
