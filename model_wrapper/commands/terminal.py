"""What all commands share: where text for people goes, and how a script gets its one line."""

import json
import logging
import os
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

DEFAULT_TRACKING_URI = "sqlite:///mlflow.db"


def console(as_json: bool = False) -> Console:
    """Where text for people goes: to stderr if stdout is for a script."""
    return Console(stderr=as_json, highlight=False, soft_wrap=True)


def print_json(**facts: object) -> None:
    """The one line for scripts; nothing may follow it."""
    typer.echo(json.dumps(facts))


def fail(message: str, status: int = 2) -> NoReturn:
    """Say what is wrong and end."""
    console(as_json=True).print(f"[bold red]error:[/] {escape(message)}")
    raise typer.Exit(status)


def use_tracking(uri: str | None, registry_uri: str | None = None) -> str:
    """Point MLflow to a tracking server; return its address.

    Args:
        uri: the caller's wish; else ``MLFLOW_TRACKING_URI``, else a SQLite file in this folder.
        registry_uri: the registry's address where it is another one.
    """
    import mlflow

    # Migrations of a new SQLite file are told line by line otherwise.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    address = uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING_URI
    mlflow.set_tracking_uri(address)
    if registry_uri:
        mlflow.set_registry_uri(registry_uri)
    return address
