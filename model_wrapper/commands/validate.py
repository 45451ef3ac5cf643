"""``python -m model_wrapper validate``."""

import logging
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from model_wrapper.commands.terminal import console, fail, print_json, use_tracking

_COLOURS = {"passed": "green", "failed": "bold red", "warning": "yellow", "n/a": "dim"}


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("validate")(validate)


def validate(
    uri: Annotated[
        str,
        typer.Argument(help="Logged model: models:/name@alias, runs:/…, or a folder."),
    ],
    env: Annotated[
        Literal["uv", "local"],
        typer.Option(
            help="uv builds the environment that the model asks for, as a deployment does; local "
            "takes this one, and .venv-engine for the engine."
        ),
    ] = "uv",
    http: Annotated[
        bool, typer.Option("--http", help="Check `mlflow models serve` with the model as well.")
    ] = False,
    tracking_uri: Annotated[
        str | None, typer.Option(help="MLflow's tracking server, as for `log`.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON on standard output.")
    ] = False,
) -> None:
    """Load a logged model as a deployment would, ask it, and say whether it keeps its contract.

    Status 0 if every check passed, 1 if one failed, 2 if the model can't be had. It starts the
    model's engine, so it needs the device that the model was logged for.
    """
    screen = console(as_json)
    from model_wrapper.contract.launch import (
        EnvironmentFailed,
        build_environment,
        prepare,
        run_suite,
    )

    folder = fetch(uri, use_tracking(tracking_uri))
    root = Path(tempfile.mkdtemp(prefix="validate-"))
    outcomes: list[dict[str, Any]] = []
    try:
        place = prepare(folder, root)
        python = Path(sys.executable)
        if env == "uv":
            with screen.status("building the model's environment"):
                try:
                    python = build_environment(place)
                except EnvironmentFailed as error:
                    fail(f"the model's environment can't be built: {error}", status=1)
        with screen.status("starting") as status:
            for event in run_suite(place, python, env, http=http):
                if "begins" in event:
                    status.update(event["begins"])
                else:
                    outcomes.append(event)
        passed = not any(outcome["status"] == "failed" for outcome in outcomes)
        show(screen, outcomes)
        log = None if passed else keep_log(place.log)
        if log:
            screen.print(f"log         {log}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if as_json:
        print_json(model_uri=uri, passed=passed, checks=outcomes, log=str(log) if log else None)
    raise typer.Exit(0 if passed else 1)


def fetch(uri: str, address: str) -> Path:
    """The folder of a logged model; ends the program if there is none."""
    import mlflow
    from mlflow.exceptions import MlflowException

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    try:
        folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri))
    except (MlflowException, OSError) as error:
        fail(f"MLflow at {address} can't give {uri}: {str(error).splitlines()[0]}")
    if not (folder / "MLmodel").is_file():
        fail(f"{uri} is no MLflow model: it has no MLmodel file")
    return folder


def keep_log(log: Path) -> Path | None:
    """Move the log out of the folder that will be removed."""
    if not log.is_file():
        return None
    with tempfile.NamedTemporaryFile(prefix="validate-", suffix=".log", delete=False) as kept:
        kept.write(log.read_bytes())
    return Path(kept.name)


def show(screen: Console, outcomes: list[dict[str, Any]]) -> None:
    """The table, and one line that sums it up."""
    table = Table(box=None, pad_edge=False)
    for heading in ("check", "result", "seconds", "what was seen"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for outcome in outcomes:
        told = escape(outcome["reason"])
        if outcome["fix"]:
            told += f"\n[italic]{escape(outcome['fix'])}[/]"
        table.add_row(
            escape(outcome["check"]),
            f"[{_COLOURS[outcome['status']]}]{outcome['status']}[/]",
            f"{outcome['seconds']:.1f}",
            told,
        )
    if not screen.is_terminal:
        screen.width = 140  # a log file has no width of its own
    screen.print(table, soft_wrap=False)
    counts = Counter(outcome["status"] for outcome in outcomes)
    screen.print(", ".join(f"{counts[status]} {status}" for status in _COLOURS if counts[status]))
