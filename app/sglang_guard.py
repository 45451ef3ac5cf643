"""Requests that end an SGLang engine, and with it the answers of everybody, refused beforehand.

SGLang checks some numbers only where it uses them, in its scheduler, which does not outlive an
exception. Each rule here was tried on 0.5.23: one request, and the engine was gone (with a large
``n``, busy for minutes). It does not say how large its vocabulary is, so tokens by number can't be
checked here and are refused where it does not check them either.
"""

from collections.abc import Mapping

from app.engines.base import EngineInfo
from app.errors import InvalidRequest

_HIGHEST = {
    "top_k": 2**31 - 1,
    "n": 128,
    # More of them than the vocabulary has tokens end it; these are what people ask for.
    "logprobs": 100,
    "top_logprobs": 100,
}


def check_survivable(fields: Mapping[str, object], info: EngineInfo, where: str = "") -> None:
    """Check the body of a chat or text completion.

    Args:
        fields: the body.
        info: the engine that it is for.
        where: prefix of the fields' names in errors.

    Raises:
        InvalidRequest: the engine would not survive it.
    """
    if not info.is_sglang:
        return
    for name, highest in _HIGHEST.items():
        value = fields.get(name)
        if value is not None and not (isinstance(value, int) and value <= highest):
            raise InvalidRequest(
                f"'{where}{name}' must be a whole number of at most {highest}.",
                field=where + name,
            )
    if fields.get("stop_token_ids") and fields.get("min_tokens"):
        raise InvalidRequest(
            f"'{where}stop_token_ids' can't be had together with min_tokens: use stop.",
            field=f"{where}stop_token_ids",
        )
    if fields.get("input_ids") is not None or not _is_text(fields.get("prompt")):
        name = "prompt" if fields.get("input_ids") is None else "input_ids"
        raise InvalidRequest(
            f"'{where}{name}' must be text: numbers of tokens are not taken.", field=where + name
        )


def _is_text(prompt: object) -> bool:
    """Whether a prompt is text, or several texts, or absent."""
    if isinstance(prompt, list):
        return all(isinstance(each, str) for each in prompt)
    return prompt is None or isinstance(prompt, str)
