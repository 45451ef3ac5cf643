"""``python -m model_wrapper resolve``: for ``python -m app serve --mlflow-model``."""

import logging
from typing import Annotated

import typer

from model_wrapper.commands.terminal import console, fail, print_json, use_tracking


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("resolve")(resolve)


def resolve(
    uri: Annotated[str, typer.Argument(help="Logged model, such as models:/chat@champion.")],
    tracking_uri: Annotated[
        str | None, typer.Option(help="MLflow's tracking server, as for `log`.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON on standard output.")
    ] = False,
) -> None:
    """Show the settings that a logged model serves with; fetch its weights if need be."""
    from mlflow.exceptions import MlflowException
    from pydantic import ValidationError

    from app.errors import ChatServerError
    from app.settings import Settings
    from model_wrapper.packaging.resolve import resolve as resolve_model

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    address = use_tracking(tracking_uri)
    try:
        store = Settings().model_cache.parent / "mlflow"
        found = resolve_model(uri, store)
    except ChatServerError as error:
        fail(error.message)
    except ValidationError as error:
        fail(f"bad settings in the environment: {error.errors(include_input=False)[0]['msg']}")
    except (MlflowException, OSError) as error:
        reason = str(error).splitlines()[0]
        fail(f"MLflow at {address} can't give {uri}: {reason}")
    for name, value in found.settings.items():
        console(as_json).print(f"{name.upper()}={value}")
    if as_json:
        print_json(settings=found.settings, interface=found.interface)
