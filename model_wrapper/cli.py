"""The command line: ``python -m model_wrapper``."""

import typer

from model_wrapper.commands import (
    delete,
    deploy,
    log,
    logs,
    query,
    resolve,
    rollback,
    status,
    validate,
)

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@cli.callback()
def main() -> None:
    """The chat server as an MLflow model: log it, check it, deploy it, ask it."""


# Each module adds its command; what it does is imported when it runs.
for command in (log, resolve, validate, deploy, status, logs, query, rollback, delete):
    command.register(cli)
