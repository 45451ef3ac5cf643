"""MLflow's three chat interfaces, as far as logging must know them apart."""

from dataclasses import dataclass
from typing import Any

_QUESTION = {"role": "user", "content": "Name three colours."}


@dataclass(frozen=True)
class Interface:
    """One file of ``model_wrapper/interfaces``."""

    file: str
    mlflow_class: str
    """In ``mlflow.pyfunc``."""
    task: str
    """What Databricks is told that the model does."""
    input_example: dict[str, Any]


INTERFACES = {
    "chat-agent": Interface(
        "chat_agent.py",
        "ChatAgent",
        "agent/v2/chat",
        {"messages": [_QUESTION], "custom_inputs": {"temperature": 0.2, "max_tokens": 100}},
    ),
    "responses-agent": Interface(
        "responses_agent.py",
        "ResponsesAgent",
        "agent/v1/responses",
        {"input": [_QUESTION], "temperature": 0.2, "max_output_tokens": 100},
    ),
    "chat-model": Interface(
        "chat_model.py",
        "ChatModel",
        "llm/v1/chat",
        {"messages": [_QUESTION], "temperature": 0.2, "max_tokens": 100},
    ),
}
