"""Carrying out a change of an endpoint, which is what ``deploy`` and ``rollback`` end in."""

from collections.abc import Mapping
from dataclasses import asdict

import typer
from rich.console import Console
from rich.markup import escape

from model_wrapper.commands.on_target import follow, tell_failure
from model_wrapper.commands.terminal import print_json
from model_wrapper.targets.base import Deployment, Phase, State, Target, TargetError

PREVIOUS = "previous_version"
"""Tag of an endpoint: the version that it served before the last change."""


def remember(state: State | None, version: str) -> Mapping[str, str]:
    """The tag for an endpoint that is to serve this version; none if it served no other."""
    served = state.active[0].version if state and state.active else version
    return {PREVIOUS: served} if served != version else {}


def carry_out(
    screen: Console,
    target: Target,
    wish: Deployment,
    *,
    exists: bool,
    interface: str,
    minutes: float | None,
    as_json: bool,
) -> None:
    """Change the endpoint, wait, ask it, and end the program with the right status.

    Args:
        screen: for people.
        target: where the endpoint is.
        wish: what it shall serve.
        exists: whether it is there already.
        interface: of the model.
        minutes: to wait; None not to.
        as_json: whether a line for scripts is printed: ``ready`` is null where that is not known.

    Raises:
        typer.Exit: it failed, does not answer, or is not ready in time.
        TargetError: the platform refused the change.
    """
    from model_wrapper.commands.smoke import smoke_test

    (target.update if exists else target.create)(wish)
    screen.print(f"endpoint    {wish.endpoint}: {'changing' if exists else 'being made'}")
    facts = {"endpoint": wish.endpoint, "model": wish.model, "version": wish.version,
             "workload": wish.workload}  # fmt: skip

    def tell(ready: bool | None, **more: object) -> None:
        if as_json:
            print_json(**facts, ready=ready, **more)

    if minutes is None:
        screen.print(f"next        python -m model_wrapper status {wish.endpoint} --wait")
        tell(None)
        return
    try:
        state = follow(screen, target, wish.endpoint, minutes, wish.version)
    except typer.Exit:
        tell(None)
        raise
    if state.phase is Phase.FAILED:
        tell_failure(screen, target, state)
        tell(False)
        raise typer.Exit(1)
    try:
        smoke = smoke_test(target, wish.endpoint, interface)
    except TargetError as error:
        screen.print(f"[bold red]no answer[/]   {escape(str(error))}")
        tell_failure(screen, target, state, str(error))
        tell(True, url=state.url, error=str(error))
        raise typer.Exit(1) from None
    screen.print(f"[bold green]answers[/]     {smoke.seconds:.1f} s: {escape(smoke.plain)}")
    if smoke.stream_error:
        screen.print(f"[yellow]no stream[/]   {escape(smoke.stream_error)}")
    else:
        screen.print(
            f"streams     {smoke.pieces} pieces, the first after {smoke.first_piece:.1f} s"
        )
    screen.print(f"url         {state.url}")
    screen.print(
        f"next        python -m model_wrapper query {wish.endpoint} 'Name three colours.' --stream"
    )
    tell(True, url=state.url, smoke=asdict(smoke))
