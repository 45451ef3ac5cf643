"""What the commands that talk to a deploy target share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from model_wrapper.commands.terminal import fail
from model_wrapper.targets import waiting
from model_wrapper.targets.base import Phase, Served, State, Target, TargetError, Unreachable
from model_wrapper.targets.failures import explain
from model_wrapper.targets.waiting import Look, StillWaiting

Endpoint = Annotated[str, typer.Argument(help="Name of the endpoint.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print one line of JSON on standard output.")]
Timeout = Annotated[
    float,
    typer.Option(
        min=0,
        help="Minutes to wait. Databricks itself gives up after 30 on CPUs, 60 on small and "
        "medium GPUs, 120 on large ones, counted from the end of the build.",
    ),
]
Interface = Annotated[
    str | None,
    typer.Option(
        help="Schema that it speaks: chat-agent, responses-agent, chat-model or openai; found by "
        "itself when left out."
    ),
]

_LAST_LINES = 20


def connect() -> Target:
    """The workspace that the SDK's usual settings name."""
    from model_wrapper.targets import databricks

    with target_errors():
        return databricks.connect()


@contextmanager
def target_errors() -> Iterator[None]:
    """End the program with the platform's words, and ours if we know what they mean."""
    try:
        yield
    except TargetError as error:
        # A connection that timed out is not a container that did.
        ours = error.mistake or isinstance(error, Unreachable)
        known = None if ours else explain(str(error))
        more = f"\n{known.cause} {known.fix}" if known else ""
        fail(f"{error}{more}", status=2 if error.mistake else 1)


def follow(
    screen: Console, target: Target, endpoint: str, minutes: float, version: str | None
) -> State:
    """Show a deployment as it goes on; its last state.

    It ends the program, but never the deployment: when the time is up and with Ctrl-C.
    """
    look: Look | None = None
    shown = ""
    again = f"python -m model_wrapper status {endpoint} --wait"
    looks = waiting.watch(
        target, endpoint, timeout=60 * minutes, version=version, interval=waiting.INTERVAL
    )
    try:
        with screen.status("waiting") as status:
            for look in looks:
                words = describe(look.state)
                status.update(f"{words}, {look.seconds / 60:.0f} min")
                if words != shown:
                    screen.print(f"{look.seconds:6.0f} s  {escape(words)}")
                    shown = words
                for kind, line in look.lines:
                    screen.print(f"[dim]{kind} | {escape(line)}[/]")
    except StillWaiting:
        fail(f"not ready after {minutes:g} min; it goes on by itself. Wait on: {again}", 1)
    except KeyboardInterrupt:
        screen.print(f"\nThe endpoint goes on by itself. Wait on: {again}")
        raise typer.Exit(130) from None
    if look is None:  # a watch looks at least once
        raise AssertionError
    return look.state


def describe(state: State) -> str:
    """An endpoint's phase and what the platform says about it."""
    newest = state.newest
    details = [newest.deployment, newest.message] if newest else []
    return ": ".join([state.phase.value, *filter(None, details)])


def tell_failure(screen: Console, target: Target, state: State, error: str = "") -> None:
    """The end of the logs of what failed, and what is likely behind it.

    Args:
        screen: for people.
        target: where the endpoint is.
        state: of the endpoint.
        error: what else was said of the failure.
    """
    newest = state.newest
    texts = [error, newest.message] if newest else [error]
    if newest is not None:
        for kind in ("build", "service"):
            text = target.log(state.endpoint, newest.name, kind)
            texts.append(text)
            lines = text.rstrip().splitlines()[-_LAST_LINES:]
            if lines:
                screen.print(f"\n[bold]last lines of the {kind} log[/]")
                for line in lines:
                    screen.print(f"  {escape(line)}")
    known = explain(*texts)
    if known is not None:
        screen.print(f"\n[bold]likely cause[/]  {escape(known.cause)}")
        screen.print(f"[bold]what to do[/]    {escape(known.fix)}")
    if state.phase is Phase.FAILED and state.answering and state.active:
        screen.print(f"{version_of(state.active[0])} still answers under this endpoint.")


def version_of(served: Served) -> str:
    """A model and its version in words."""
    return f"{served.model} version {served.version}"


def interface_of(target: Target, state: State) -> str:
    """The schema that an endpoint speaks."""
    from model_wrapper.targets.asking import TELLING_TASKS, interface_of_task

    if state.task in TELLING_TASKS:
        return interface_of_task(state)
    serving = next(iter(state.active or state.pending), None)
    if serving is not None:
        try:
            return target.registered(serving.model, serving.version, None).interface
        except TargetError:
            pass  # asking an endpoint takes fewer rights than reading its model
    return interface_of_task(state)
