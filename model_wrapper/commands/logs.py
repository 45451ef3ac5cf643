"""``python -m model_wrapper logs``."""

from typing import Annotated

import typer

from model_wrapper.commands.on_target import Endpoint, connect, target_errors
from model_wrapper.commands.terminal import fail
from model_wrapper.targets.base import LogKind
from model_wrapper.targets.waiting import INTERVAL, Clock, LogReader


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("logs")(logs)


def logs(
    endpoint: Endpoint,
    build: Annotated[
        bool, typer.Option("--build", help="The log of building the container.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the log of an endpoint's container, or of building it, of the newest version."""
    kind: LogKind = "build" if build else "service"
    target = connect()
    with target_errors():
        state = target.state(endpoint)
        if state.newest is None:
            fail(f"{endpoint} serves nothing", status=1)
        reader = LogReader(target, endpoint)
        printed = False
        try:
            while True:
                for line in reader.new(state.newest.name, kind):
                    typer.echo(line)
                    printed = True
                if not follow:
                    break
                Clock().sleep(INTERVAL)
        except KeyboardInterrupt:
            return
        if not printed:
            fail(f"Databricks has no {kind} log of {endpoint} (yet)", status=1)
