"""The pip requirements of logged models: complete, resolvable, from the one list of pins.

FlashInfer's wheel is the one line that is not resolved: it comes from a host that not every
machine reaches.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from model_wrapper.packaging.lock import PYTHONS, resolved, targets
from model_wrapper.requirements import ENGINES, FLASHINFER, FOLDER, for_model, lock_file, unlocked

# Engine pins that a model can't have, and why.
LEFT_TO_THE_RESOLVER = {
    "pyarrow": "MLflow takes none newer than 25",
    "airportsdata": "its new releases need Python 3.12",
    "networkx": "its new releases need Python 3.12",
    "scipy": "its new releases need Python 3.12",
}


def pins(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        requirement = Requirement(line)
        if requirement.url is None:
            found[canonicalize_name(requirement.name)] = str(requirement.specifier)
    return found


def engine_pins(engine: str) -> dict[str, str]:
    return pins(_lines(f"engine-{engine}.txt"))


def _lines(file: str) -> list[str]:
    text = (FOLDER / file).read_text("utf-8")
    return [line for line in re.sub(r"#.*", "", text).split("\n") if line.strip()]


@pytest.mark.parametrize(("engine", "python"), targets())
def test_it_resolves_to_the_committed_list(engine: str, python: tuple[int, int]) -> None:
    """``make lock`` would change nothing."""
    committed = lock_file(engine, python).read_text("utf-8")
    assert resolved(engine, python, committed) == committed


@pytest.mark.parametrize("name", ["gateway", "dev", "model-mlflow-2.20.2"])
def test_an_environment_with_the_gateway_has_all_that_it_asks_for(name: str) -> None:
    """A line added to gateway.in must reach each list that includes it."""
    assert pins(_lines("gateway.in")).keys() <= pins(_lines(f"{name}.txt")).keys()


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_line_is_an_exact_pin(engine: str, python: tuple[int, int]) -> None:
    lines = for_model(engine, python)
    assert all(pin.startswith("==") for pin in pins(lines).values())
    assert f"mlflow=={version('mlflow')}" in lines
    assert not any("skinny" in line for line in lines)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("engine", ["cu124", "cu130"])
def test_the_engine_is_the_one_of_the_images(engine: str, python: tuple[int, int]) -> None:
    ours = pins(for_model(engine, python))
    other = {name for name, pin in engine_pins(engine).items() if ours.get(name) != pin}
    assert other <= LEFT_TO_THE_RESOLVER.keys()
    assert {"sglang", "torch", "fastapi"} <= ours.keys()


def test_flashinfer_is_the_wheel_of_the_image() -> None:
    dockerfile = Path(FOLDER.parent, "Dockerfile").read_text("utf-8")
    (url,) = re.findall(r"^ARG FLASHINFER_WHEEL=(http\S+)$", dockerfile, re.MULTILINE)
    assert f"flashinfer-python @ {url}" == FLASHINFER
    assert FLASHINFER in for_model("cu124")
    assert FLASHINFER not in for_model("cu130")


def test_another_mlflow_gets_the_pins_and_its_own_version() -> None:
    lines = for_model("cu124", mlflow="3.16.0")
    assert "mlflow==3.16.0" in lines
    assert f"sglang{engine_pins('cu124')['sglang']}" in lines
    assert not any(line.startswith("pyarrow==") for line in lines)


def test_cpu_models_ask_for_no_engine() -> None:
    assert not {"sglang", "torch"} & pins(list(unlocked("cpu", "3.17.2"))).keys()
