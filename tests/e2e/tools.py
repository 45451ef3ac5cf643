"""A question that has to be answered by a tool call."""

from __future__ import annotations

from typing import Any


def _function(name: str, description: str) -> dict[str, Any]:
    city = {"city": {"type": "string", "description": "Name of the city"}}
    parameters = {
        "type": "object",
        "properties": city,
        "required": ["city"],
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    _function("get_weather", "The weather in a city"),
    _function("get_time", "The time in a city"),
]
REQUIRED = "required"
NAMED = {"type": "function", "function": {"name": "get_weather"}}

# The model's template does not show it the tools, so it is told what a call looks like.
WEATHER_QUESTION = [
    {
        "role": "system",
        "content": "You call tools. Example: <tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
    },
    {"role": "user", "content": "What is the weather in Paris?"},
]
# Where the grammar has let go after the call, the model goes on with free text.
WEATHER_STOP = ["\n\n"]
