"""The rules by which a ChatAgent conversation becomes the engine's ``messages``.

===============================  ============================================================
in the request                   what happens
===============================  ============================================================
role ``developer``               becomes ``system``
leading system messages          joined into one: most chat templates read only the first
later system messages            passed on where they stand
system, where the template       put before the text of the first user turn (``fold_system``)
takes none
same role twice in a row         passed on; a template that minds says so
unknown role                     refused, with the known roles
``content: null``                "" for an assistant turn with tool calls, else refused
text content parts               joined into one string (``chat_agent.py``)
image and other parts            refused
``tool_calls``                   only on assistant turns, arguments must be a JSON object
``role: tool``                   needs ``tool_call_id``; ``name`` is looked up when absent
``id`` (also twice the same)     not sent: the engine has no use for it
``attachments``                  not sent, with a warning
``name`` of a user               passed on
===============================  ============================================================
"""

from difflib import get_close_matches

import msgspec

from app.errors import InvalidRequest
from app.schemas.chat_agent import ROLES, Message, ToolCall

EngineMessage = dict[str, object]


def engine_messages(messages: list[Message]) -> list[EngineMessage]:
    """Translate the conversation by the rules above.

    Raises:
        InvalidRequest: a rule refuses a message; names it by its index.
    """
    function_names: dict[str, str] = {}
    translated = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        _check_role(message, where)
        for number, call in enumerate(message.tool_calls or ()):
            _check_arguments(call, f"{where}.tool_calls[{number}].function.arguments")
            function_names[call.id] = call.function.name
        translated.append(_translate(message, where, function_names))
    return _join_leading_system(translated)


def _check_role(message: Message, where: str) -> None:
    if message.role not in ROLES:
        near = get_close_matches(message.role[:32].lower(), ROLES, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else f" Known roles: {', '.join(ROLES)}."
        raise InvalidRequest(
            f"'{where}.role' is not a role that chat models know.{hint}", field=f"{where}.role"
        )
    if message.tool_calls and message.role != "assistant":
        raise InvalidRequest(
            f"'{where}.tool_calls' belongs to assistant messages; a result goes in a message "
            "with role 'tool'.",
            field=f"{where}.tool_calls",
        )


def _check_arguments(call: ToolCall, path: str) -> None:
    if not is_json_object(call.function.arguments):
        raise InvalidRequest(f"'{path}' must be the JSON text of an object.", field=path)


def is_json_object(text: str) -> bool:
    """Whether ``text`` is JSON and an object at its top level."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def _translate(message: Message, where: str, function_names: dict[str, str]) -> EngineMessage:
    role = "system" if message.role == "developer" else message.role
    translated: EngineMessage = {"role": role, "content": _content(message, where)}
    if message.name is not None and role == "user":
        translated["name"] = message.name
    if message.tool_calls:
        translated["tool_calls"] = [call.model_dump() for call in message.tool_calls]
    if role == "tool":
        if not message.tool_call_id:
            raise InvalidRequest(
                f"'{where}.tool_call_id' is missing: a tool message names the call it answers.",
                field=f"{where}.tool_call_id",
            )
        name = message.name or function_names.get(message.tool_call_id)
        if not name:
            raise InvalidRequest(
                f"'{where}.name' is missing and no earlier tool call has this tool_call_id; "
                "give the function's name.",
                field=f"{where}.name",
            )
        translated |= {"tool_call_id": message.tool_call_id, "name": name}
    return translated


def _content(message: Message, where: str) -> str:
    if message.content is not None:
        return message.content
    if message.role == "assistant" and message.tool_calls:
        return ""
    fix = "content or tool_calls" if message.role == "assistant" else "a string"
    raise InvalidRequest(f"'{where}.content' is missing: give {fix}.", field=f"{where}.content")


def _join_leading_system(messages: list[EngineMessage]) -> list[EngineMessage]:
    count = 0
    while count < len(messages) and messages[count]["role"] == "system":
        count += 1
    if count < 2:
        return messages
    joined = "\n\n".join(str(message["content"]) for message in messages[:count])
    return [{"role": "system", "content": joined}, *messages[count:]]


def fold_system(messages: list[EngineMessage]) -> list[EngineMessage]:
    """The same conversation for a template without a system role: its text opens the user's."""
    first, *rest = messages
    if first["role"] != "system":
        return messages
    if not rest or rest[0]["role"] != "user":
        return [{"role": "user", "content": first["content"]}, *rest]
    text = f"{first['content']}\n\n{rest[0]['content']}"
    return [{**rest[0], "content": text}, *rest[1:]]
