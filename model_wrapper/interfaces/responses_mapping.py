"""Between MLflow's ResponsesAgent schema and the server's own request and answer. Pure functions.

Shapes: ``mlflow/types/responses.py`` and ``responses_helpers.py``, which follow OpenAI's
Responses API. A conversation is a list of items; tool calls and their results are items of
their own, while the chat engine wants calls inside an assistant message.
"""

from collections.abc import Iterator
from typing import Any

from app.errors import InvalidRequest
from app.events import Usage
from app.schemas.answer import Answer
from app.schemas.chat_agent_answer import message_id

JSONObject = dict[str, Any]

# Request fields that are generation parameters under another name.
_PARAMETERS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
}


def chat_body(request: JSONObject) -> JSONObject:
    """The ChatAgent request that means the same.

    Raises:
        InvalidRequest: an item or a part has no counterpart in a chat.
    """
    inputs: JSONObject = {
        ours: request[theirs]
        for theirs, ours in _PARAMETERS.items()
        if request.get(theirs) is not None
    }
    if request.get("tools"):
        inputs["tools"] = [_tool(tool, index) for index, tool in enumerate(request["tools"])]
    if request.get("tool_choice") is not None:
        inputs["tool_choice"] = _tool_choice(request["tool_choice"])
    if (reasoning := request.get("reasoning")) and reasoning.get("effort"):
        inputs["reasoning_effort"] = reasoning["effort"]
    if text_format := (request.get("text") or {}).get("format"):
        inputs["response_format"] = _response_format(text_format)
    inputs |= request.get("custom_inputs") or {}
    body: JSONObject = {"messages": _messages(request["input"]), "custom_inputs": inputs}
    context = dict(request.get("context") or {})
    if request.get("user"):
        context.setdefault("user_id", request["user"])
    if context:
        body["context"] = context
    return body


def _messages(items: list[JSONObject]) -> list[JSONObject]:
    messages: list[JSONObject] = []
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        if kind == "message":
            content = _text(item.get("content"), f"input[{index}].content")
            messages.append({"role": item["role"], "content": content})
        elif kind == "function_call":
            call = {
                "id": item["call_id"],
                "type": "function",
                "function": {"name": item["name"], "arguments": item["arguments"]},
            }
            last = messages[-1] if messages else {}
            if last.get("role") == "assistant":
                last.setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            output = _text(item["output"], f"input[{index}].output")
            messages.append({"role": "tool", "content": output, "tool_call_id": item["call_id"]})
        elif kind != "reasoning":  # earlier thoughts are not shown to the model again
            raise InvalidRequest(
                f"'input[{index}].type' is not one that a chat model takes: message, "
                "function_call, function_call_output, reasoning.",
                field=f"input[{index}].type",
            )
    return messages


def _text(content: object, where: str) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [None]:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise InvalidRequest(f"'{where}' may hold text only.", field=where)
        texts.append(part["text"])
    return "".join(texts)


def _tool(tool: JSONObject, index: int) -> JSONObject:
    if tool.get("type") != "function":
        raise InvalidRequest(
            f"'tools[{index}].type' must be \"function\": this server runs no tools of its own.",
            field=f"tools[{index}].type",
        )
    names = ("name", "description", "parameters", "strict")
    function = {name: tool[name] for name in names if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, dict) and "name" in choice:
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def _response_format(text_format: JSONObject) -> JSONObject:
    if text_format.get("type") != "json_schema":
        return text_format
    names = ("name", "description", "schema", "strict")
    schema = {name: text_format[name] for name in names if text_format.get(name) is not None}
    return {"type": "json_schema", "json_schema": schema}


def response(answer: Answer, answer_id: str) -> JSONObject:
    """A ``ResponsesAgentResponse`` as a JSON object."""
    cut = answer.finish_reason == "length"
    whole: JSONObject = {
        "id": f"resp_{answer_id}",
        "object": "response",
        "output": output_items(answer, answer_id),
        "status": "incomplete" if cut else "completed",
    }
    if cut:
        whole["incomplete_details"] = {"reason": "max_output_tokens"}
    if answer.usage is not None:
        whole["usage"] = _usage(answer.usage)
    if answer.logprobs:
        whole["custom_outputs"] = {"logprobs": {"content": list(answer.logprobs)}}
    return whole


def output_items(answer: Answer, answer_id: str) -> list[JSONObject]:
    """Reasoning, message and calls of an answer, in this order."""
    items: list[JSONObject] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{answer_id}", "summary": summary})
    if answer.content or not answer.tool_calls:
        content = [{"type": "output_text", "text": answer.content, "annotations": []}]
        items.append(
            {
                "type": "message",
                "id": message_id(answer_id),
                "role": "assistant",
                "status": "incomplete" if answer.finish_reason == "length" else "completed",
                "content": content,
            }
        )
    for index, call in enumerate(answer.tool_calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{answer_id}_{index}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
        )
    return items


def text_event(text: str, answer_id: str) -> JSONObject:
    """The event for a piece of text."""
    return {
        "type": "response.output_text.delta",
        "item_id": message_id(answer_id),
        "delta": text,
    }


def last_events(text: str, answer: Answer, answer_id: str) -> Iterator[JSONObject]:
    """The events that end a stream."""
    if text:
        yield text_event(text, answer_id)
    whole = response(answer, answer_id)
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def _usage(usage: Usage) -> JSONObject:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "output_tokens": usage.completion_tokens,
        # The engine does not count them apart.
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    }
