"""The command line: ``python -m model_wrapper``."""

import typer

from model_wrapper.commands import log, resolve, validate

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@cli.callback()
def main() -> None:
    """The chat server as an MLflow model: log it, check it, deploy it, ask it."""


# Each module adds its commands; what they do is imported when they run.
log.register(cli)
resolve.register(cli)
validate.register(cli)
