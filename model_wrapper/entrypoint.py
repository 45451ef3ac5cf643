"""Serves a logged model without MLflow: ``python -u server``, in the model's artifacts folder.

``log --route entrypoint`` copies this file to ``artifacts/server/__main__.py``, and beside it the
packages that it imports (``packaging/server_folder.py``): a folder that is run is on Python's path.
What the model was logged with is in ``settings.json`` there::

    {"http": {"host": "0.0.0.0", "port": 8080, "invocations": "openai"},
     "model_config": {…}, "artifacts": {"llm-model": "qwen"}}

Paths of artifacts are relative to the artifacts folder. Environment variables win over everything.
"""

import json
from pathlib import Path

import typer

from app.cli import fail, load_settings, run
from app.errors import ChatServerError
from app.logs import set_up_logging
from model_wrapper.cpu_engine import with_engine
from model_wrapper.model_config import setting_values, unless_in_environment

cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@cli.command()
def main() -> None:
    """Start the engine and the gateway as the model was logged. Settings: environment variables."""
    try:
        settings = load_settings(logged_values(Path(__file__).absolute().parent))
        set_up_logging(settings.log_level)
        settings = with_engine(settings)
    except ChatServerError as error:
        fail(error.message)
    run(settings)


def logged_values(server: Path) -> dict[str, object]:
    """The settings in ``settings.json``, without those that the environment overrides.

    Args:
        server: the folder of that file; the artifacts are its neighbours.

    Raises:
        InvalidRequest: ``model_config`` has an unknown key; it is named.
    """
    logged = json.loads((server / "settings.json").read_text("utf-8"))
    artifacts = {name: str(server.parent / path) for name, path in logged["artifacts"].items()}
    return setting_values(logged["model_config"], artifacts) | unless_in_environment(logged["http"])


if __name__ == "__main__":
    cli()
