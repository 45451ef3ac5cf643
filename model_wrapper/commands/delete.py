"""``python -m model_wrapper delete``."""

import sys
from typing import Annotated

import typer
from rich.markup import escape

from model_wrapper.commands.on_target import AsJSON, Endpoint, connect, target_errors, version_of
from model_wrapper.commands.terminal import console, fail, print_json


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("delete")(delete)


def delete(
    endpoint: Endpoint,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Remove an endpoint. The registered model stays."""
    screen = console(as_json)
    target = connect()
    with target_errors():
        state = target.state(endpoint)
        if not yes:
            if not sys.stdin.isatty():
                fail("nobody can be asked here: give --yes")
            serving = ", ".join(version_of(served) for served in state.active) or "nothing"
            if not typer.confirm(f"Delete the endpoint {endpoint}, which serves {serving}?"):
                raise typer.Exit(1)
        target.delete(endpoint)
        screen.print(f"deleted     {escape(endpoint)}")
        if as_json:
            print_json(endpoint=endpoint, deleted=True)
