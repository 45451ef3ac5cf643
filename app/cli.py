"""The command line: ``python -m app``."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from app.settings import Settings

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@cli.callback()
def main() -> None:
    """One chat server for people who run their own LLMs."""


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [HOST].")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one [PORT].")] = None,
    model: Annotated[
        str | None, typer.Option(help="Built-in name, local folder or hub id [MODEL].")
    ] = None,
    engine_url: Annotated[
        str | None, typer.Option(help="Attach to a running server instead [ENGINE_URL].")
    ] = None,
    mlflow_model: Annotated[
        str | None,
        typer.Option(
            help="Serve a model logged with MLflow, such as models:/chat@champion, with the "
            "settings that it was logged with."
        ),
    ] = None,
) -> None:
    """Start the engine and the gateway. Every setting is an environment variable as well."""
    options = {"host": host, "port": port, "model": model, "engine_url": engine_url}
    given = {name: value for name, value in options.items() if value is not None}
    run(load_settings((logged_settings(mlflow_model) if mlflow_model else {}) | given))


def run(settings: Settings) -> NoReturn:
    """Serve until a signal comes or the engine fails, and end the program."""
    # Imported late, so that --help and mistakes in settings answer at once.
    from app.logs import set_up_logging
    from app.runtime import build_engine
    from app.serve import serve

    set_up_logging(settings.log_level)
    if settings.api_key_file is not None:
        _check_keys(settings.api_key_file)
    if settings.is_open:
        _refuse_to_be_open(settings)
    try:
        with asyncio.Runner(loop_factory=_new_event_loop) as runner:
            status = runner.run(serve(settings, build_engine(settings)))
    except OSError as error:
        fail(f"can't listen on {settings.host} port {settings.port}: {error.strerror}; set PORT")
    except KeyboardInterrupt:
        status = 0
    raise typer.Exit(status)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _check_keys(file: Path) -> None:
    from app.gateway.keys import KeyRing

    try:
        KeyRing(None, file)
    except (OSError, ValueError) as error:
        fail(f"API_KEY_FILE: {error}")


def _refuse_to_be_open(settings: Settings) -> None:
    where = settings.published_on or settings.host
    if not settings.allow_no_api_key:
        fail(
            f"others can reach {where}, and no API key is set: set API_KEY or API_KEY_FILE, listen "
            "on 127.0.0.1, or set ALLOW_NO_API_KEY=true if something in front asks for one"
        )
    logging.getLogger(__name__).warning(
        "ALLOW_NO_API_KEY: whoever reaches %s can use this server without a key", where
    )


def logged_settings(uri: str) -> dict[str, object]:
    """Settings of a logged model; ends the program if it can't be had."""
    from app.logged_model import LoggedModelUnavailable, settings_of_logged_model

    try:
        return settings_of_logged_model(uri)
    except LoggedModelUnavailable as error:
        fail(str(error))


def load_settings(options: dict[str, object]) -> Settings:
    """Settings from the environment, with options on top; ends the program on a mistake."""
    try:
        return Settings(**options)  # type: ignore[arg-type]
    except ValidationError as error:
        lines = [
            f"{str(found['loc'][0]).upper()}: {found['msg'].removeprefix('Value error, ')}"
            for found in error.errors(include_input=False)
        ]
        fail("bad settings\n  " + "\n  ".join(lines))


def fail(message: str) -> NoReturn:
    """Say what is wrong and end with status 2."""
    Console(stderr=True, highlight=False).print(
        f"[bold red]error:[/] {escape(message)}", soft_wrap=True
    )
    raise typer.Exit(2)
