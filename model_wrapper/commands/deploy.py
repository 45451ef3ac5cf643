"""``python -m model_wrapper deploy``."""

from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from model_wrapper.commands.on_target import (
    AsJSON,
    Timeout,
    connect,
    follow,
    target_errors,
    tell_failure,
)
from model_wrapper.commands.terminal import console, fail, print_json
from model_wrapper.targets.base import (
    Deployment,
    InferenceTable,
    NoSuchEndpoint,
    Phase,
    RateLimit,
    Served,
    State,
    Target,
    TargetError,
)

PREVIOUS = "previous_version"
"""Tag of an endpoint: the version that it served before the last change."""


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("deploy")(deploy)


def deploy(
    endpoint: Annotated[str, typer.Argument(help="Name of the endpoint, new or there already.")],
    model: Annotated[str, typer.Option(help="Registered model: catalog.schema.name.")],
    version: Annotated[
        str | None, typer.Option(help="Its version. Default: the newest that is ready.")
    ] = None,
    alias: Annotated[str | None, typer.Option(help="Its alias, in place of --version.")] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            help="Compute, such as GPU_MEDIUM. Default: that of the endpoint, else the smallest "
            "that the model fits on."
        ),
    ] = None,
    size: Annotated[
        Literal["Small", "Medium", "Large"] | None,
        typer.Option(help="Concurrency: 4, 8-16, 16-64. A GPU replica counts for 4. [Small]"),
    ] = None,
    scale_to_zero: Annotated[
        bool | None,
        typer.Option(
            help="Give the compute back after 30 idle minutes; the next request then waits "
            "for a whole start. [no]"
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="Environment variable NAME=value, or NAME={{secrets/scope/key}}. Repeatable; "
            "those that the endpoint has already stay."
        ),
    ] = None,
    inference_table: Annotated[
        str | None,
        typer.Option(help="Record requests and answers: catalog.schema or catalog.schema.prefix."),
    ] = None,
    rate_limit: Annotated[
        list[str] | None,
        typer.Option(help="Calls a minute: N for the endpoint, N/user for each. Repeatable."),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until it answers, and ask it.")] = True,
    timeout: Timeout = 120,
    as_json: AsJSON = False,
) -> None:
    """Serve a registered model on Databricks: make an endpoint, or change it.

    Status 0 when it answers, 1 when the deployment failed or is not ready in time, 2 for a mistake.
    """
    if version and alias:
        fail("give --version or --alias, not both")
    screen = console(as_json)
    target = connect()
    with target_errors():
        from model_wrapper.targets import environment, preflight, workloads

        variables = environment.parse(env or [])
        table = _inference_table(inference_table)
        limits = tuple(_rate_limit(text) for text in rate_limit or [])
        found = target.registered(model, version, alias)
        before = _state(target, endpoint)
        now = _serving(before)
        kept = dict(now.environment) if now else {}
        variables = kept | variables
        environment.check_count(variables)
        wished = workload or (now.workload if now and now.workload else None)
        choice = workloads.choose(target.cloud, found.weights, found.needs_gpu, wished)
        screen.print(f"model       {found.name} version {found.version}, {found.interface}")
        screen.print(f"workload    {choice.workload}: {escape(choice.reason)}")
        for warning in (*choice.warnings, *preflight.warnings(found, variables)):
            screen.print(f"[yellow]warning[/]     {escape(warning)}")
        wish = Deployment(
            endpoint=endpoint,
            model=found.name,
            version=found.version,
            workload=choice.workload,
            size=size or (now.size if now and now.size else "Small"),
            scale_to_zero=_first(scale_to_zero, now.scale_to_zero if now else None, False),
            environment=variables,
            inference_table=table,
            rate_limits=limits,
            tags={PREVIOUS: now.version} if now and now.version != found.version else {},
        )
        carry_out(
            screen,
            target,
            wish,
            exists=before is not None,
            interface=found.interface,
            minutes=timeout if wait else None,
            as_json=as_json,
        )


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
        as_json: whether a line for scripts is printed.
    """
    from model_wrapper.commands.smoke import smoke_test

    (target.update if exists else target.create)(wish)
    screen.print(f"endpoint    {wish.endpoint}: {'changing' if exists else 'being made'}")
    facts = {"endpoint": wish.endpoint, "model": wish.model, "version": wish.version,
             "workload": wish.workload}  # fmt: skip
    following = f"python -m model_wrapper query {wish.endpoint} 'Name three colours.' --stream"
    if minutes is None:
        screen.print(f"next        python -m model_wrapper status {wish.endpoint} --wait")
        if as_json:
            print_json(**facts, ready=None)
        return
    state = follow(screen, target, wish.endpoint, minutes, wish.version)
    if state.phase is Phase.FAILED:
        tell_failure(screen, target, state)
        if as_json:
            print_json(**facts, ready=False)
        raise typer.Exit(1)
    smoke = smoke_test(target, wish.endpoint, interface)
    screen.print(f"[bold green]answers[/]     {smoke.seconds:.1f} s: {escape(smoke.plain)}")
    if smoke.stream_error:
        screen.print(f"[yellow]no stream[/]   {escape(smoke.stream_error)}")
    else:
        screen.print(
            f"streams     {smoke.pieces} pieces, the first after {smoke.first_piece:.1f} s"
        )
    screen.print(f"url         {state.url}")
    screen.print(f"next        {following}")
    if as_json:
        print_json(**facts, ready=True, url=state.url, smoke=asdict(smoke))


def _state(target: Target, endpoint: str) -> State | None:
    try:
        return target.state(endpoint)
    except NoSuchEndpoint:
        return None


def _serving(state: State | None) -> Served | None:
    return next(iter(state.active or state.pending), None) if state else None


def _first(*choices: bool | None) -> bool:
    return next(choice for choice in choices if choice is not None)


def _inference_table(text: str | None) -> InferenceTable | None:
    if text is None:
        return None
    catalog, _, rest = text.partition(".")
    schema, _, prefix = rest.partition(".")
    if not catalog or not schema or "." in prefix:
        raise TargetError(f"--inference-table {text!r}: give catalog.schema[.prefix]", True)
    return InferenceTable(catalog, schema, prefix or None)


def _rate_limit(text: str) -> RateLimit:
    number, slash, key = text.partition("/")
    if not number.isdigit() or int(number) == 0 or (slash and key not in ("user", "endpoint")):
        raise TargetError(f"--rate-limit {text!r}: give N or N/user, calls a minute", True)
    return RateLimit(int(number), "user" if key == "user" else "endpoint")
