"""``custom_inputs``: the generation parameters, by the names of SGLang's chat API.

See https://docs.sglang.ai/basic_usage/openai_api_completions.html and
https://docs.sglang.ai/basic_usage/sampling_params.html for their meaning.
"""

import re
import warnings
from typing import Annotated, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from app.schemas.validation import StrictModel

JSONObject = dict[str, object]


def _is_json_schema(schema: JSONObject) -> JSONObject:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        # Names of the caller's own properties can be of any length.
        at = "".join(f"[{str(part)[:32]!r}]" for part in error.path)[:200] or "its top level"
        raise ValueError(f"is not a valid JSON schema (at {at})") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except OverflowError:
        raise ValueError("has a pattern with too large a repetition") from None
    return schema


def _is_regex(pattern: str) -> str:
    try:
        with warnings.catch_warnings():
            # What Python will read differently one day is no concern of the engine's.
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        # Its words may quote the pattern, its position does not.
        at = "" if error.pos is None else f" (at character {error.pos})"
        raise ValueError(f"is not a valid regular expression{at}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except OverflowError:
        raise ValueError("has too large a repetition") from None
    return pattern


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


JSONSchema = Annotated[JSONObject, AfterValidator(_is_json_schema)]
# Compiling takes time in proportion to the length, and everybody waits meanwhile.
Regex = Annotated[
    str,
    Field(min_length=1, max_length=10_000, json_schema_extra={"format": "regex"}),
    AfterValidator(_is_regex),
]
Number = Annotated[float, Field(allow_inf_nan=False)]
# The engine keeps whole numbers in 32 bits (the seed in 64), and its scheduler, which serves
# everybody, dies of one that does not fit.
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
TokenId = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
# Pydantic's schema of such a dictionary says nothing about keys that are no token ids.
LogitBias = Annotated[
    dict[TokenId, Number], Field(json_schema_extra={"additionalProperties": False})
]
# An empty one is found in every text: the answer would end before it begins.
StopString = Annotated[str, Field(min_length=1)]
StopStrings = Annotated[
    list[StopString],
    BeforeValidator(_as_list, json_schema_input_type=StopString | list[StopString]),
]


class ToolFunction(StrictModel):
    """A function that the model may call."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9_.\-]+$")
    description: str | None = None
    parameters: JSONSchema | None = None
    strict: bool | None = None


class Tool(StrictModel):
    """One entry of ``tools``, in OpenAI's form."""

    type: Literal["function"]
    function: ToolFunction


class NamedFunction(StrictModel):
    """The function that ``tool_choice`` asks for."""

    name: str


class NamedTool(StrictModel):
    """``tool_choice`` for one particular function."""

    type: Literal["function"]
    function: NamedFunction


def _form_of_choice(value: object) -> str:
    return "object" if isinstance(value, dict | NamedTool) else "word"


# Told apart by its form, so that an error is about the form that was meant.
ToolChoice = Annotated[
    Annotated[Literal["auto", "none", "required"], Tag("word")]
    | Annotated[NamedTool, Tag("object")],
    Discriminator(_form_of_choice),
]


class SchemaFormat(BaseModel):
    """``response_format.json_schema``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    name: str = "response"
    description: str | None = None
    json_schema: JSONSchema = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(StrictModel):
    """Structured output in OpenAI's form."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaFormat | None = None

    @model_validator(mode="after")
    def _schema_goes_with_its_type(self) -> "ResponseFormat":
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("needs 'json_schema' exactly when 'type' is \"json_schema\"")
        return self


class CustomInputs(StrictModel):
    """Every generation parameter that ``custom_inputs`` takes."""

    temperature: Number | None = Field(None, ge=0)
    top_p: Number | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31 - 1, description="-1 switches it off.")
    min_p: Number | None = Field(None, ge=0, le=1)
    max_tokens: Count | None = Field(None, ge=1)
    max_completion_tokens: Count | None = Field(None, ge=1)
    min_tokens: Count | None = None
    stop: StopStrings | None = Field(None, description="A string or a list of strings.")
    stop_token_ids: list[Count] | None = None
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    n: int | None = Field(None, ge=1, le=1)
    presence_penalty: Number | None = Field(None, ge=-2, le=2)
    frequency_penalty: Number | None = Field(None, ge=-2, le=2)
    repetition_penalty: Number | None = Field(None, gt=0, le=2)
    logit_bias: LogitBias | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    continue_final_message: bool | None = None
    response_format: ResponseFormat | None = None
    json_schema: JSONSchema | None = None
    regex: Regex | None = None
    ebnf: str | None = Field(None, min_length=1)
    tools: list[Tool] | None = Field(None, min_length=1)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    chat_template_kwargs: JSONObject | None = None
    lora_path: str | None = Field(None, min_length=1)
    extra_body: JSONObject | None = Field(
        None, description="Sent to the engine as it is, for parameters not listed here."
    )

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "CustomInputs":
        grammars = [
            name
            for name in ("response_format", "json_schema", "regex", "ebnf")
            if getattr(self, name) is not None
        ]
        if len(grammars) > 1:
            raise ValueError(f"may hold only one of {' and '.join(grammars)}")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("has 'top_logprobs' without 'logprobs': true")
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("may hold only one of max_tokens and max_completion_tokens")
        names = [tool.function.name for tool in self.tools or []]
        if len(set(names)) < len(names):
            raise ValueError("has two tools of the same name")
        self._check_tool_choice(names)
        self._check_extra_body()
        return self

    def _check_extra_body(self) -> None:
        extra = sorted(self.extra_body or ())
        if reserved := RESERVED.intersection(extra):
            raise ValueError(f"may not set '{min(reserved)}' in extra_body: the server sets it")
        # There it would escape the checks above.
        if own := [name for name in extra if name in CustomInputs.model_fields]:
            raise ValueError(f"has its own '{own[0]}': take it out of extra_body")

    def _check_tool_choice(self, names: list[str]) -> None:
        if self.tool_choice is None or self.tool_choice == "none":
            return
        if not names:
            raise ValueError("has 'tool_choice' without 'tools'")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            raise ValueError("has a 'tool_choice' that names none of its 'tools'")

    @property
    def constrained(self) -> bool:
        """Whether the answer must follow a grammar (structured output or a forced tool call)."""
        grammar = self.json_schema or self.regex or self.ebnf
        formatted = self.response_format is not None and self.response_format.type != "text"
        return bool(grammar) or formatted or self.forces_tool_call

    @property
    def forces_tool_call(self) -> bool:
        """Whether ``tool_choice`` leaves the model no way but to call a tool."""
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedTool)


# Keys of the engine's request that belong to the gateway.
RESERVED = frozenset({"messages", "stream", "stream_options", "model", "rid", "n", "user"})


def engine_parameters(inputs: CustomInputs) -> JSONObject:
    """The parameters as keys of the engine's chat-completion request."""
    if not inputs.model_fields_set:
        return {}
    parameters: JSONObject = inputs.model_dump(
        exclude_none=True, exclude={"json_schema", "extra_body", "n"}, by_alias=True
    )
    if inputs.json_schema is not None:
        parameters["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "response", "schema": inputs.json_schema},
        }
    return parameters | (inputs.extra_body or {})
