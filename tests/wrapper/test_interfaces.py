"""ResponsesAgent and ChatModel: valid by MLflow's own types, the same text as the ChatAgent."""

from __future__ import annotations

import json
import warnings
from typing import Any, ClassVar

import pytest
from mlflow.types.agent import ChatAgentChunk, ChatAgentResponse
from mlflow.types.llm import ChatCompletionChunk, ChatCompletionResponse

from tests.wrapper.loaded import LoadedModel
from tests.wrapper.test_chat_agent import GREEDY, MESSAGES, TOOL_CALL, WEATHER

with warnings.catch_warnings():
    # MLflow warns of its own type hints while it is imported.
    warnings.simplefilter("ignore", UserWarning)
    from mlflow.types.responses import ResponsesAgentResponse, ResponsesAgentStreamEvent

TOOL_INPUTS = TOOL_CALL["custom_inputs"]


@pytest.fixture(scope="module")
def text(models: dict[str, LoadedModel]) -> str:
    """What the model says to ``MESSAGES``."""
    answer = models["chat-agent"].predict(messages=MESSAGES, custom_inputs=GREEDY)
    ChatAgentResponse.model_validate(answer)
    return str(answer["messages"][0]["content"])


def test_chat_agent_chunks_are_valid(models: dict[str, LoadedModel], text: str) -> None:
    chunks = models["chat-agent"].stream(messages=MESSAGES, custom_inputs=GREEDY)
    parsed = [ChatAgentChunk.model_validate(chunk) for chunk in chunks]
    assert "".join(chunk.delta.content or "" for chunk in parsed) == text


class TestResponsesAgent:
    REQUEST: ClassVar[dict[str, Any]] = {
        "input": MESSAGES,
        "temperature": 0,
        "max_output_tokens": 24,
    }

    @pytest.fixture
    def model(self, models: dict[str, LoadedModel]) -> LoadedModel:
        return models["responses-agent"]

    def test_answer(self, model: LoadedModel, text: str) -> None:
        answer = model.predict(**self.REQUEST)
        ResponsesAgentResponse.model_validate(answer)
        (item,) = answer["output"]
        assert item["content"][0]["text"] == text
        assert answer["usage"]["output_tokens"] > 0

    def test_stream(self, model: LoadedModel, text: str) -> None:
        events = model.stream(**self.REQUEST)
        for event in events:
            ResponsesAgentStreamEvent.model_validate(event)
        deltas = [each for each in events if each["type"] == "response.output_text.delta"]
        assert len(deltas) > 1
        assert "".join(each["delta"] for each in deltas) == text
        assert events[-1]["type"] == "response.completed"
        (done,) = [each for each in events if each["type"] == "response.output_item.done"]
        assert {each["item_id"] for each in deltas} == {done["item"]["id"]}

    def test_tool_call_and_its_result(self, model: LoadedModel) -> None:
        question = TOOL_CALL["messages"]
        # MLflow's signature of a logged ResponsesAgent refuses every key of a tool but its type, so
        # tools go the way that they go in a ChatAgent.
        answer = model.predict(input=question, custom_inputs=TOOL_INPUTS)
        ResponsesAgentResponse.model_validate(answer)
        call = next(item for item in answer["output"] if item["type"] == "function_call")
        assert call["name"] == "get_weather"
        assert "city" in json.loads(call["arguments"])
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        following = model.predict(input=[*question, call, result], max_output_tokens=8)
        assert following["output"][-1]["type"] == "message"

    def test_a_picture_is_refused(self, model: LoadedModel) -> None:
        picture = {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"}
        error = model.refused(input=[{"role": "user", "content": [picture]}])
        assert (error["error"], error["status"]) == ("INVALID_PARAMETER_VALUE", 400)
        assert "input[0].content" in error["message"]


class TestChatModel:
    REQUEST: ClassVar[dict[str, Any]] = {"messages": MESSAGES, "temperature": 0.0, "max_tokens": 24}

    @pytest.fixture
    def model(self, models: dict[str, LoadedModel]) -> LoadedModel:
        return models["chat-model"]

    def test_answer(self, model: LoadedModel, text: str) -> None:
        answer = model.predict(**self.REQUEST)
        ChatCompletionResponse.from_dict(answer)
        (choice,) = answer["choices"]
        assert choice["message"]["content"] == text
        assert answer["usage"]["completion_tokens"] > 0
        assert answer["model"] == "smollm2-135m-instruct"

    def test_stream(self, model: LoadedModel, text: str) -> None:
        chunks = model.stream(**self.REQUEST)
        for chunk in chunks:
            ChatCompletionChunk.from_dict(chunk)
        choices = [chunk["choices"][0] for chunk in chunks]
        assert len(choices) > 1
        assert "".join(choice["delta"].get("content") or "" for choice in choices) == text
        assert choices[-1]["finish_reason"] in ("stop", "length")
        assert chunks[-1]["usage"]["total_tokens"] > 0

    def test_tool_call(self, model: LoadedModel) -> None:
        answer = model.predict(
            messages=TOOL_CALL["messages"],
            tools=[WEATHER],
            stop=TOOL_INPUTS["stop"],
            temperature=0.0,
            max_tokens=TOOL_INPUTS["max_tokens"],
            custom_inputs={"tool_choice": "required"},
        )
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "get_weather"
        assert answer["choices"][0]["finish_reason"] == "tool_calls"

    def test_a_bad_parameter_is_an_mlflow_error(self, model: LoadedModel) -> None:
        error = model.refused(messages=MESSAGES, custom_inputs={"temperatur": 1})
        assert (error["error"], error["status"]) == ("INVALID_PARAMETER_VALUE", 400)
        assert "temperatur" in error["message"]
