"""``python -m model_wrapper logs``."""

from time import sleep
from typing import Annotated

import typer

from model_wrapper.commands.on_target import Endpoint, connect, target_errors
from model_wrapper.commands.terminal import fail
from model_wrapper.targets import waiting
from model_wrapper.targets.base import LogKind, Target, Unreachable
from model_wrapper.targets.waiting import LogReader

# In a row; each has waited for as long as the SDK tries.
_UNREACHABLE_TIMES = 10


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("logs")(logs)


def logs(
    endpoint: Endpoint,
    build: Annotated[
        bool,
        typer.Option("--build/--service", help="Of building the container, or of running it."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the log of an endpoint's container, or of building it, of the newest version."""
    kind: LogKind = "build" if build else "service"
    target = connect()
    with target_errors():
        reader = LogReader(target, endpoint)
        printed = _print_new(target, reader, endpoint, kind)
        if not follow:
            if not printed:
                fail(f"Databricks has no {kind} log of {endpoint} (yet)", status=1)
            return
        away = 0
        try:
            while True:
                sleep(waiting.INTERVAL)
                try:
                    _print_new(target, reader, endpoint, kind)
                    away = 0
                except Unreachable:
                    away += 1
                    if away == _UNREACHABLE_TIMES:
                        raise
        except KeyboardInterrupt:
            return


def _print_new(target: Target, reader: LogReader, endpoint: str, kind: LogKind) -> bool:
    # Looked up each time: a change of the endpoint goes on with the new version's log.
    newest = target.state(endpoint).newest
    if newest is None:
        fail(f"{endpoint} serves nothing", status=1)
    printed = False
    for line in reader.new(newest.name, kind):
        typer.echo(line)
        printed = True
    return printed
