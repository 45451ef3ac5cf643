"""``python -m model_wrapper query``."""

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
from model_wrapper.commands.terminal import print_json
from model_wrapper.targets.base import TargetError


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
    as_json: AsJSON = False,
) -> None:
    """Ask an endpoint. The answer's text goes to standard output, or all of it with --json."""
    from model_wrapper.targets.asking import piece_of, question, text_of

    target = connect()
    with target_errors():
        chosen = interface_of(target, target.state(endpoint), interface)
        if chosen not in ("chat-agent", "responses-agent", "chat-model", "openai"):
            raise TargetError(f"--interface {chosen!r} is none that is known here", True)
        body = question(chosen, text, system=system, max_tokens=max_tokens, temperature=temperature)
        if not stream:
            answer = target.invoke(endpoint, body)
            if as_json:
                print_json(**answer)
            else:
                typer.echo(text_of(chosen, answer))
            return
        for event in target.stream(endpoint, body):
            piece = piece_of(chosen, event)
            if as_json:
                print_json(**event)
            else:
                sys.stdout.write(piece)
                sys.stdout.flush()
        if not as_json:
            typer.echo()
