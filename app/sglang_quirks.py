"""What a given SGLang silently gets wrong, checked before a request is sent to it.

Seen on a GPU with 0.4.6.post5: with a reasoning parser no grammar is enforced before
``</think>``, so structured output and forced tool calls come back as free text with status 200.
Neither that version nor newer ones use ``seed`` unless deterministic inference is switched on.
"""

from app.engines.base import EngineInfo
from app.errors import InvalidRequest
from app.schemas.sampling import CustomInputs


def check_supported(inputs: CustomInputs, info: EngineInfo) -> list[str]:
    """Warnings about parameters that will have no effect on this engine.

    Raises:
        InvalidRequest: the engine would answer as if the parameter were not there.
    """
    if not info.is_sglang:
        return []
    check_template_kwargs(inputs.chat_template_kwargs, info, "custom_inputs.")
    if inputs.tools and inputs.tool_choice != "none" and info.tool_call_parser is None:
        raise InvalidRequest(
            "'custom_inputs.tools' needs a tool-call parser, and the engine was started without "
            "one: set TOOL_CALL_PARSER and restart it.",
            field="custom_inputs.tools",
        )
    if inputs.constrained and info.reasoning_parser and ignores_grammar_while_reasoning(info):
        raise InvalidRequest(
            "Structured output and forced tool calls are not enforced by this engine version "
            "while its reasoning parser is on: restart it with REASONING_PARSER=none, or leave "
            "response_format, json_schema, regex, ebnf and tool_choice out of custom_inputs.",
            field="custom_inputs",
        )
    if inputs.seed is not None and not info.deterministic:
        return ["custom_inputs.seed has no effect: the engine does not sample deterministically"]
    return []


# What SGLang and transformers pass to the chat template's call themselves. Given twice, it is a
# TypeError there; what only shapes the result makes one that SGLang can't use. ``documents`` is
# not among them: templates for retrieval read it.
_ARGUMENTS_OF_THE_CALL = frozenset(
    {
        "self", "conversation", "conversations", "messages", "tools", "tokenize",
        "add_generation_prompt", "continue_final_message", "return_dict", "return_tensors",
        "return_assistant_tokens_mask", "tokenizer_kwargs", "padding", "truncation", "max_length",
    }
)  # fmt: skip


def check_template_kwargs(kwargs: object, info: EngineInfo, where: str = "") -> None:
    """Check ``chat_template_kwargs``, which may only hold variables of the chat template.

    Args:
        kwargs: as in the request; None if it has none.
        info: the engine that it is for.
        where: prefix of the field's name in errors.

    Raises:
        InvalidRequest: the engine would fail, with a 500 on some versions, or take a whole
            template from the caller, as 0.4.6 does; newer ones have a switch for that.
    """
    if kwargs is None or not info.is_sglang:
        return
    field = f"{where}chat_template_kwargs"
    if not isinstance(kwargs, dict):
        raise InvalidRequest(f"'{field}' must be an object.", field=field)
    refused = _ARGUMENTS_OF_THE_CALL | ({"chat_template"} if _is_0_4(info) else set())
    if taken := refused.intersection(kwargs):
        name = min(taken)
        raise InvalidRequest(
            f"'{field}' may not hold '{name}': only variables of the model's chat template, such "
            "as enable_thinking. Messages, tools and continue_final_message have fields of their "
            "own.",
            field=f"{field}.{name}",
        )


def ignores_grammar_while_reasoning(info: EngineInfo) -> bool:
    """Whether this version drops the grammar when a reasoning parser is set."""
    return _is_0_4(info)


def _is_0_4(info: EngineInfo) -> bool:
    """Whether the engine is of the line that the CUDA 12.4 pins take."""
    return info.is_sglang and (info.version or "").startswith("0.4.")


_OPENAI_ROLES = ("system", "user", "assistant", "tool")


def mend_openai_messages(messages: object, info: EngineInfo) -> bool:
    """Check, and mend in place, ``messages`` of OpenAI's route to which 0.4.6 answers a bare 500.

    It knows no role ``developer``, which OpenAI's clients use for ``system``. Newer versions
    check all of this themselves.

    Returns:
        Whether something was changed, so that the body has to be written anew.

    Raises:
        InvalidRequest: names the message and the fix.
    """
    if not _is_0_4(info):
        return False
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest(
            "'messages' must be a list with one message or more.", field="messages"
        )
    mended = False
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role == "developer":
            role = message["role"] = "system"
            mended = True
        if role not in _OPENAI_ROLES:
            raise InvalidRequest(
                f"'{where}.role' must be one of {', '.join(_OPENAI_ROLES)}.",
                field=f"{where}.role",
            )
        if role != "assistant" and not isinstance(message.get("content"), str | list):
            raise InvalidRequest(
                f"'{where}.content' must be a string or a list of parts.", field=f"{where}.content"
            )
    return mended
