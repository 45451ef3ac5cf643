"""``python -m model_wrapper query``."""

import os
import sys
from typing import Annotated

import typer

from model_wrapper.commands.on_target import (
    AsJSON,
    Endpoint,
    Interface,
    connect,
    interface_of,
    target_errors,
)
from model_wrapper.commands.terminal import console, print_json
from model_wrapper.targets.base import Asked, Target, TargetError


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("query")(query)


def query(
    endpoint: Endpoint,
    text: Annotated[str, typer.Argument(help="What the user says.")],
    stream: Annotated[
        bool, typer.Option("--stream", help="Print the answer as it is generated.")
    ] = False,
    system: Annotated[str | None, typer.Option(help="What the system says first.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest answer, in tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 for the likeliest words.")] = None,
    interface: Interface = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Ask a gateway of your own there, such as http://127.0.0.1:8080, under any name, "
            "in ChatAgent's schema unless --interface says otherwise; the key is API_KEY."
        ),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Ask an endpoint. The answer's text goes to standard output, or all of it with --json."""
    from model_wrapper.targets.asking import INTERFACES, piece_of, question, text_of
    from model_wrapper.targets.gateway import Gateway

    asked: Asked
    with target_errors():
        if interface is not None and interface not in INTERFACES:
            raise TargetError(f"--interface {interface!r}: {', '.join(INTERFACES)}", True)
        if url:
            asked, chosen = Gateway(url, os.environ.get("API_KEY")), interface or "chat-agent"
        else:
            asked = target = connect()
            chosen = interface or _interface_on(target, endpoint)
        body = question(chosen, text, system=system, max_tokens=max_tokens, temperature=temperature)
        if not stream:
            answer = asked.invoke(endpoint, body)
            if as_json:
                print_json(**answer)
            else:
                typer.echo(text_of(chosen, answer))
            return
        for event in asked.stream(endpoint, body):
            piece = piece_of(chosen, event)
            if as_json:
                print_json(**event)
            else:
                sys.stdout.write(piece)
                sys.stdout.flush()
        if not as_json:
            typer.echo()


def _interface_on(target: Target, endpoint: str) -> str:
    state = target.state(endpoint)
    if any("scaled to zero" in served.message.lower() for served in state.active):
        console(as_json=True).print("scaled to zero: the answer waits until it has started")
    return interface_of(target, state)
