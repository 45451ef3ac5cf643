"""``mlflow.models.predict`` in an environment that uv builds from the model's own requirements."""

from __future__ import annotations

import json
from pathlib import Path

from tests.wrapper.sandbox import PATIENCE, Sandbox
from tests.wrapper.scoring import Scoring
from tests.wrapper.test_chat_agent import GREEDY, MESSAGES, without_ids

PREDICT = """
import json, sys, mlflow
uri, output, question = sys.argv[1:]
mlflow.models.predict(uri, json.loads(question), env_manager="uv", output_path=output)
"""


def test_same_answer(
    sandbox: Sandbox, scoring: Scoring, logged: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    question = {"messages": MESSAGES, "custom_inputs": GREEDY}
    output = tmp_path / "answer.json"
    uri = logged["chat-agent"]["model_uri"]
    # MLflow calls uv by name, which the sandbox's PATH has.
    predicting = sandbox.start("-c", PREDICT, uri, str(output), json.dumps(question))
    assert predicting.wait(PATIENCE) == 0
    answer = json.loads(output.read_text("utf-8"))
    assert without_ids(answer) == without_ids(scoring.invoke(**question).json())
