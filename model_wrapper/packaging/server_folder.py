"""The folder in a model's artifacts from which it serves by itself (``--route entrypoint``).

Databricks' serving of custom LLMs starts the command in the metadata ``entrypoint`` in the model's
artifacts folder and sends it OpenAI's chat requests on port 8080 at ``/invocations``
(https://docs.databricks.com/aws/en/machine-learning/model-serving/serve-custom-llms).
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_wrapper.packaging.code import CPU_ENGINE, ROOT, copy_code

NAME = "server"
ENTRYPOINT = f"python -u {NAME}"
TASK = "llm/v1/chat"
INTERFACE = "chat-model"
# Every interface: the platform asks from outside of the container.
# Databricks asks for its own credentials before a request comes through to the container.
_HTTP = {
    "host": "0.0.0.0",  # noqa: S104
    "port": 8080,
    "invocations": "openai",
    "allow_no_api_key": True,
}
_WRAPPER = ("__init__.py", "cpu_engine.py", "model_config.py")


def stage_server(
    folder: Path, engine: str, config: Mapping[str, Any], artifacts: Mapping[str, str]
) -> Path:
    """Make the folder; return its path.

    Args:
        folder: where to make it, under the name that the entrypoint knows.
        engine: one of ``requirements.ENGINES``.
        config: the model's ``model_config``.
        artifacts: the model's other artifacts, which will be this one's neighbours.
    """
    server = folder / NAME
    server.mkdir()
    wrapper = (f"model_wrapper/{name}" for name in _WRAPPER)
    copy_code(server, ("app", *wrapper, *(CPU_ENGINE if engine == "cpu" else ())))
    shutil.copyfile(ROOT / "model_wrapper" / "entrypoint.py", server / "__main__.py")
    settings = {
        "http": _HTTP,
        "model_config": config,
        "artifacts": {name: Path(path).name for name, path in artifacts.items()},
    }
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    (server / "settings.json").write_text(text + "\n", encoding="utf-8")
    return server
