"""Settings: read from the environment, checked once, without showing secrets."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from app.cli import fail, load_settings
from app.settings import Settings, environment_of

EXAMPLE = Path(__file__).parents[2] / ".env.example"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PORT", "0", 0),
        ("MODEL", "/モデル/my model", "/モデル/my model"),
        ("IDLE_TIMEOUT", "2.5", 2.5),
        ("MODEL_CACHE", "~/models", Path("~/models").expanduser()),
        ("ENGINE_URL", "http://127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("ENGINE_URL", "https://host/v1/", "https://host"),
        ("ENGINE_PYTHON", "/opt/engine/bin/python", Path("/opt/engine/bin/python")),
        ("MEM_FRACTION_STATIC", "0.8", 0.8),
    ],
)
def test_each_setting_is_the_variable_of_its_name(
    name: str, text: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    assert getattr(Settings(), name.lower()) == value


def test_empty_variables_count_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    default = Settings()
    for name in Settings.model_fields:
        monkeypatch.setenv(name.upper(), "")
    assert Settings() == default


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[("PORT", "70000"), ("PORT", "http"), ("LOG_LEVEL", "loud"), ("ENGINE_DEVICE", "tpu")],
        *[("REQUEST_TIMEOUT", "0"), ("REQUEST_TIMEOUT", "nan"), ("MAX_BODY_BYTES", "16MB")],
        *[("ENGINE_URL", "Qwen/Qwen2.5"), ("ENGINE_URL", "/models/x"), ("ENGINE_URL", "ftp://x")],
        *[("ENGINE_URL", "http://user:pass@x"), ("ENGINE_URL", "http://x/?key=1")],
        *[("ENGINE_ARGS", "--x 'open"), ("MEM_FRACTION_STATIC", "1"), ("CONTEXT_LENGTH", "-1")],
    ],
)
def test_a_mistake_is_told_by_the_name_of_the_variable(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(Exception) as caught:  # noqa: PT011  typer's exit
        load_settings({})
    assert getattr(caught.value, "exit_code", None) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert re.search(rf"^  {name}: \S+", told, re.MULTILINE)


NUMBERS = [
    name
    for name, field in Settings.model_fields.items()
    if field.annotation in (int, float, int | None, float | None)
]


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999"])
@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_may_be_endless_or_none_at_all(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name.upper(), text)
    with pytest.raises(Exception) as caught:  # noqa: PT011  typer's exit
        load_settings({})
    assert getattr(caught.value, "exit_code", None) == 2
    assert re.search(rf"^  {name.upper()}: \S+", capsys.readouterr().err, re.MULTILINE)


def test_every_duration_is_among_the_numbers() -> None:
    assert {"shutdown_grace", "shutdown_delay", "mem_fraction_static", "port"} <= set(NUMBERS)


@pytest.mark.parametrize("text", ["WARNING", "Warning", "warning"])
def test_the_log_level_may_be_written_in_any_case(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_LEVEL", text)
    assert load_settings({}).log_level == "warning"


def test_what_a_mistake_says_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011  typer's exit
        fail("no [bold]model[/] in [/] x")
    assert "no [bold]model[/] in [/] x" in capsys.readouterr().err


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "hunter2")
    monkeypatch.setenv("ENGINE_API_KEY", "hunter3")
    settings = Settings()
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "hunter2"
    for shown in (
        repr(settings),
        str(settings),
        str(settings.model_dump()),
        settings.model_dump_json(),
    ):
        assert "hunter" not in shown


def test_children_inherit_everything_but_our_secrets() -> None:
    ours = {"API_KEY": "a", "engine_api_key": "b", "Api_Key": "c", "HF_TOKEN": "d", "PATH": "e"}
    assert environment_of(ours, X="y") == {"HF_TOKEN": "d", "PATH": "e", "X": "y"}
    assert ours["API_KEY"] == "a"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1  # type: ignore[misc]


def test_engine_arguments_are_split_as_in_a_shell() -> None:
    settings = Settings(engine_args="--tp-size 2 --chat-template 'my file' --x=\"$HOME;ls\"")
    assert settings.engine_argv == ["--tp-size", "2", "--chat-template", "my file", "--x=$HOME;ls"]


def test_the_engines_python_and_device_can_be_chosen(tmp_path: Path) -> None:
    assert Settings(engine_python=tmp_path / "py").find_engine_python() == tmp_path / "py"
    assert Settings(engine_device="cuda").resolve_device() == "cuda"
    assert Settings(engine_device="cpu").resolve_device() == "cpu"


def documented() -> dict[str, str]:
    """Names and values of .env.example up to what is for docker compose alone."""
    text = EXAMPLE.read_text(encoding="utf-8").split("docker compose only")[0]
    return dict(re.findall(r"^#?([A-Z][A-Z_]+)=(.*)$", text, re.MULTILINE))


def test_the_example_documents_exactly_the_settings_that_exist() -> None:
    # HF_TOKEN is read by Hugging Face's library.
    assert set(documented()) - {"HF_TOKEN"} == {name.upper() for name in Settings.model_fields}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_the_example_shows_the_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    default = Settings.model_fields[name].default
    assert default is not PydanticUndefined, "every setting has a default"
    monkeypatch.setenv(name.upper(), documented()[name.upper()])
    assert getattr(Settings(), name) == getattr(Settings(_env_prefix="UNSET_"), name)
