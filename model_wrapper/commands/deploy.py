"""``python -m model_wrapper deploy``."""

from typing import Annotated, Literal

import typer
from rich.markup import escape

from model_wrapper.commands.change import carry_out, remember
from model_wrapper.commands.on_target import AsJSON, Timeout, connect, target_errors
from model_wrapper.commands.terminal import console, fail
from model_wrapper.targets.base import (
    Deployment,
    InferenceTable,
    NoSuchEndpoint,
    RateLimit,
    Served,
    State,
    Target,
    TargetError,
)


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("deploy")(deploy)


def deploy(
    model: Annotated[str, typer.Option(help="Registered model: catalog.schema.name.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="ENDPOINT", help="Name of the endpoint, new or there already."),
    ] = None,
    endpoint: Annotated[str | None, typer.Option(help="The same, as an option.")] = None,
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
        typer.Option(
            help="Concurrency: 4, 8-16, 16-64. A GPU replica counts for 4. Default: Small."
        ),
    ] = None,
    scale_to_zero: Annotated[
        bool | None,
        typer.Option(
            help="Give the compute back after 30 idle minutes; the next request then waits "
            "for a whole start. Default: no."
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
    if name and endpoint and name != endpoint:
        fail(f"one endpoint at a time: {name} or --endpoint {endpoint}")
    endpoint = endpoint or name
    if not endpoint:
        fail("name the endpoint")
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
        whose = "as asked for" if workload else "as the endpoint has it"
        choice = workloads.choose(target.cloud, found.weights, found.needs_gpu, wished, whose)
        screen.print(f"model       {found.name} version {found.version}, {found.interface}")
        screen.print(f"workload    {choice.workload}: {escape(choice.reason)}")
        doubts = preflight.warnings(found, variables, gpus=choice.gpus, rate_limits=bool(limits))
        for warning in (*choice.warnings, *doubts):
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
            tags=remember(before, found.version),
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
