"""The settings of a model that was logged with MLflow.

The server does not import MLflow: the wrapper's own command is asked, with this interpreter.
"""

import json
import subprocess
import sys

from app.settings import environment_of


class LoggedModelUnavailable(Exception):
    """The model can't be had; the wrapper has said why on stderr."""


def settings_of_logged_model(uri: str) -> dict[str, object]:
    """Settings by name, its weights being on this machine now.

    Raises:
        LoggedModelUnavailable: there is no such model, or MLflow is not installed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "model_wrapper", "resolve", uri, "--json"],
        stdin=subprocess.DEVNULL,
        # Progress and errors are for the terminal.
        stdout=subprocess.PIPE,
        env=environment_of(),
        check=False,
    )
    if done.returncode != 0:
        raise LoggedModelUnavailable(f"can't serve the MLflow model {uri}; see the line above")
    settings: dict[str, object] = json.loads(done.stdout.splitlines()[-1])["settings"]
    return settings
