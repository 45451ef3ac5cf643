"""Run by the Python of one MLflow version: says which objects its ChatAgent types accept.

Reads lines ``{"kind": "response" | "chunk", "object": ...}`` from stdin and answers each with a
line ``null`` (valid) or a text that says what is wrong. The last line names the mlflow version.
It is a script of its own because the versions can't be installed together.
"""

import json
import sys

import mlflow
from mlflow.types.agent import ChatAgentChunk, ChatAgentResponse

MODELS = {"response": ChatAgentResponse, "chunk": ChatAgentChunk}


def problem(kind: str, value: object) -> str | None:
    """What is wrong with one object; None when this version accepts it."""
    try:
        MODELS[kind].model_validate(value)
    except ValueError as error:  # pydantic's ValidationError is one
        return " ".join(str(error).split())
    return None


for line in sys.stdin:
    case = json.loads(line)
    print(json.dumps(problem(case["kind"], case["object"])))
print(json.dumps({"mlflow": mlflow.__version__}))
