"""``python -m model_wrapper status``."""

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from model_wrapper.commands.on_target import (
    AsJSON,
    Timeout,
    connect,
    describe,
    follow,
    target_errors,
    tell_failure,
    version_of,
)
from model_wrapper.commands.terminal import console, fail, print_json
from model_wrapper.targets.base import Phase, State


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("status")(status)


def status(
    endpoint: Annotated[
        str | None, typer.Argument(help="Name of the endpoint; all of them without it.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is ready.")] = False,
    timeout: Timeout = 120,
    as_json: AsJSON = False,
) -> None:
    """Show what an endpoint serves and how it is.

    Status 0 if it is ready, 1 if not, 2 if there is none.
    """
    screen = console(as_json)
    if wait and endpoint is None:
        fail("--wait needs the name of an endpoint")
    target = connect()
    with target_errors():
        if endpoint is None:
            states = sorted(target.states(), key=lambda state: state.endpoint)
            _show_all(screen, states)
            if as_json:
                print_json(endpoints=[facts_of(state) for state in states])
            return
        state = follow(screen, target, endpoint, timeout, None) if wait else target.state(endpoint)
        _show(screen, state)
        if state.phase is Phase.FAILED:
            tell_failure(screen, target, state)
        if as_json:
            print_json(**facts_of(state))
        raise typer.Exit(0 if state.phase is Phase.READY else 1)


def facts_of(state: State) -> dict[str, object]:
    """An endpoint for scripts."""
    return {
        "endpoint": state.endpoint,
        "phase": state.phase.value,
        "answering": state.answering,
        "task": state.task,
        "url": state.url,
        "active": [f"{served.model}/{served.version}" for served in state.active],
        "pending": [f"{served.model}/{served.version}" for served in state.pending],
    }


def _show(screen: Console, state: State) -> None:
    screen.print(f"endpoint    {escape(state.endpoint)}")
    screen.print(f"phase       {escape(describe(state))}")
    for heading, entries in (("serves", state.active), ("pending", state.pending)):
        for served in entries:
            idle = ", scales to zero" if served.scale_to_zero else ""
            screen.print(
                f"{heading:<11} {escape(version_of(served))}, {served.workload} {served.size}{idle}"
            )
            if served.environment:
                names = ", ".join(sorted(served.environment))
                screen.print(f"            variables: {escape(names)}")
    screen.print(f"url         {state.url}")


def _show_all(screen: Console, states: list[State]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("endpoint", "phase", "serves"):
        table.add_column(heading)
    for state in states:
        table.add_row(
            escape(state.endpoint),
            state.phase.value,
            escape(", ".join(version_of(served) for served in state.active)),
        )
    screen.print(table)
