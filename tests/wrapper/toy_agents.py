"""ChatAgents as MLflow hands them out: one without a fault, and others with one fault each."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any

with warnings.catch_warnings():
    # What MLflow warns of while it is imported is not ours to mend.
    warnings.simplefilter("ignore")
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import INTERNAL_ERROR, INVALID_PARAMETER_VALUE

JSON = dict[str, Any]
WORDS = ["One ", "red, ", "two ", "blue, ", "three ", "green."]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}


class SoundAgent:
    """A ChatAgent as MLflow hands it out, without a fault. A word is a token."""

    def __init__(self) -> None:
        self._ids = count()

    def new_id(self) -> str:
        return f"msg_{next(self._ids)}"

    def refuse(self, body: JSON) -> None:
        inputs = body.get("custom_inputs", {})
        known = {"temperature", "max_tokens", "tools", "tool_choice", "ignore_eos"}
        message_keys = {key for message in body["messages"] for key in message}
        if (
            not body["messages"]
            or set(inputs) - known
            or inputs.get("temperature", 0) < 0
            or inputs.get("max_tokens", 0) > 10_000
            or message_keys - {"role", "content"}
        ):
            raise MlflowException("It is wrong.", error_code=INVALID_PARAMETER_VALUE)

    def words(self, body: JSON) -> list[str]:
        inputs = body.get("custom_inputs", {})
        return [] if "tools" in inputs else WORDS[: inputs.get("max_tokens")]

    def closing(self, body: JSON) -> JSON:
        words = self.words(body)
        cut = 0 < len(words) < len(WORDS)
        reason = "length" if cut else "stop" if words else "tool_calls"
        tokens = len(words)
        usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
        return {"finish_reason": reason, "usage": usage}

    def calls(self, body: JSON) -> list[JSON]:
        return [CALL] if "tools" in body.get("custom_inputs", {}) else []

    def message(self, body: JSON, content: str, message_id: str, last: bool) -> JSON:
        calls = self.calls(body) if last else []
        message = {"role": "assistant", "content": content, "id": message_id}
        return message | ({"tool_calls": calls} if calls else {})

    def predict(self, body: JSON) -> JSON:
        self.refuse(body)
        text = "".join(self.words(body))
        message = self.message(body, text, self.new_id(), last=True)
        return {"messages": [message], **self.closing(body)}

    def predict_stream(self, body: JSON) -> Iterator[JSON]:
        self.refuse(body)
        message_id = self.new_id()
        *words, last = self.words(body) or [""]
        for word in words:
            yield {"delta": self.message(body, word, message_id, last=False)}
        yield {"delta": self.message(body, last, message_id, last=True), **self.closing(body)}


class Mute(SoundAgent):
    def words(self, body: JSON) -> list[str]:
        return [" "]


class OtherStream(SoundAgent):
    def predict_stream(self, body: JSON) -> Iterator[JSON]:
        for chunk in super().predict_stream(body):
            chunk["delta"]["content"] = chunk["delta"]["content"].upper()
            yield chunk


class OnePiece(SoundAgent):
    def predict_stream(self, body: JSON) -> Iterator[JSON]:
        whole = self.predict(body)
        yield {"delta": whole["messages"][0], "usage": whole["usage"]}


class NoIds(SoundAgent):
    def new_id(self) -> str:
        return ""


class SameIds(SoundAgent):
    def new_id(self) -> str:
        return "msg"


class NewIdInEachChunk(SoundAgent):
    def message(self, body: JSON, content: str, message_id: str, last: bool) -> JSON:
        return super().message(body, content, self.new_id(), last)


class NoUsage(SoundAgent):
    def closing(self, body: JSON) -> JSON:
        return {"finish_reason": super().closing(body)["finish_reason"]}


class WrongUsage(SoundAgent):
    def closing(self, body: JSON) -> JSON:
        closing = super().closing(body)
        return closing | {"usage": closing["usage"] | {"total_tokens": 1}}


class AlwaysStop(SoundAgent):
    def closing(self, body: JSON) -> JSON:
        return super().closing(body) | {"finish_reason": "stop"}


class NoCalls(SoundAgent):
    def calls(self, body: JSON) -> list[JSON]:
        return []


class BrokenArguments(SoundAgent):
    def calls(self, body: JSON) -> list[JSON]:
        calls: list[JSON] = json.loads(json.dumps(super().calls(body)))
        for call in calls:
            call["function"]["arguments"] = '{"city": '
        return calls


class RefusesTools(SoundAgent):
    def refuse(self, body: JSON) -> None:
        super().refuse(body)
        if "tools" in body["custom_inputs"]:
            raise MlflowException("No tools in schema.", error_code=INVALID_PARAMETER_VALUE)


class CallsWithoutIds(SoundAgent):
    def calls(self, body: JSON) -> list[JSON]:
        return [call | {"id": ""} for call in super().calls(body)]


class AcceptsAll(SoundAgent):
    def refuse(self, body: JSON) -> None:
        """Nothing is wrong here."""


class BlamesItself(SoundAgent):
    def refuse(self, body: JSON) -> None:
        try:
            super().refuse(body)
        except MlflowException:
            raise MlflowException("Internal error.", error_code=INTERNAL_ERROR) from None


class RepeatsTheCaller(SoundAgent):
    def refuse(self, body: JSON) -> None:
        try:
            super().refuse(body)
        except MlflowException as error:
            raise MlflowException(f"{error} {body}", error_code=INVALID_PARAMETER_VALUE) from None


class DiesOfLongOnes(SoundAgent):
    def refuse(self, body: JSON) -> None:
        super().refuse(body)
        if any(len(message["content"]) > 10_000 for message in body["messages"]):
            raise ConnectionError("the engine is gone")
