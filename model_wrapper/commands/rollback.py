"""``python -m model_wrapper rollback``."""

from typing import Annotated

import typer

from model_wrapper.commands.change import PREVIOUS, carry_out, remember
from model_wrapper.commands.on_target import (
    AsJSON,
    Endpoint,
    Timeout,
    connect,
    target_errors,
    version_of,
)
from model_wrapper.commands.terminal import console
from model_wrapper.targets.base import Deployment, Phase, State, Target, TargetError


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("rollback")(rollback)


def rollback(
    endpoint: Endpoint,
    to: Annotated[
        str | None, typer.Option(help="Version to serve again. Default: the one before.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until it answers, and ask it.")] = True,
    timeout: Timeout = 120,
    as_json: AsJSON = False,
) -> None:
    """Serve the version before again, on the same compute and with the same variables.

    It is the one that the endpoint served before its last change; where that is not known, the next
    lower version that is ready; after a failed change, the one that still answers.
    """
    screen = console(as_json)
    target = connect()
    with target_errors():
        state = target.state(endpoint)
        if not state.active:
            raise TargetError(f"{endpoint} has served nothing yet: there is no way back", True)
        now = state.active[0]
        version, why = (to, "as asked for") if to else _version_before(target, state)
        found = target.registered(now.model, version, None)
        screen.print(f"serves      {version_of(now)}")
        screen.print(f"back to     version {found.version}: {why}")
        wish = Deployment(
            endpoint=endpoint,
            model=now.model,
            version=found.version,
            workload=now.workload,
            size=now.size,
            scale_to_zero=now.scale_to_zero,
            environment=now.environment,
            tags=remember(state, found.version),
        )
        carry_out(
            screen,
            target,
            wish,
            exists=True,
            interface=found.interface,
            minutes=timeout if wait else None,
            as_json=as_json,
        )


def _version_before(target: Target, state: State) -> tuple[str, str]:
    now = state.active[0]
    if state.phase is Phase.FAILED and state.pending:
        return now.version, "the last change failed, and this one still answers"
    ready = target.versions(now.model)
    tagged = state.tags.get(PREVIOUS, "")
    if tagged.isdigit() and int(tagged) in ready and tagged != now.version:
        return tagged, "what the endpoint served before"
    lower = [version for version in ready if version < int(now.version)]
    if not lower:
        raise TargetError(
            f"{now.model} has no ready version before {now.version}; name one with --to", True
        )
    return str(lower[-1]), "the next lower version that is ready"
