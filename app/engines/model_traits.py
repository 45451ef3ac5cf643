"""Which of SGLang's parsers a model needs, read from its own files.

The chat template is the best witness: it shows the tags that the model was trained to write.
"""

import json
from dataclasses import dataclass
from pathlib import Path

# A setting's way to say "no parser, whatever the model looks like".
NONE = "none"


@dataclass(frozen=True)
class Parsers:
    """Names of SGLang's parsers, None for none."""

    tool_call: str | None
    reasoning: str | None


# What templates say about tool calls: first match wins. Names for 0.4.6 and for 0.5, if any.
_TOOL_CALLS = (
    ("<｜tool▁calls▁begin｜>", "deepseekv3", "deepseekv3"),
    ("[TOOL_CALLS]", "mistral", "mistral"),
    ("<|python_tag|>", "llama3", "llama3"),
    # Llama 3.2 calls with bare JSON; its results carry the role all of Llama 3 has for them.
    ("<|start_header_id|>ipython<|end_header_id|>", "llama3", "llama3"),
    ("<function=", None, "qwen3_coder"),
    ("<tool_call>", "qwen25", "qwen"),
)
# A model whose template shows no tools can still be forced to call one by a grammar; the parser
# must then know the form that the grammar gives.
_FALLBACK = ("qwen25", "hermes")

# QwQ and the Qwen 3 models that can do nothing but think; as written in Jinja.
_OPENED_THOUGHT = r"<|im_start|>assistant\n<think>"
_THINKING = (
    ("qwen3", "qwen3"),
    ("deepseek", "deepseek-r1"),
)


def choose_parsers(
    model_path: Path, *, is_new: bool, tool_call: str | None, reasoning: str | None
) -> Parsers:
    """Parsers for the model in a folder.

    Args:
        model_path: a Hugging Face model folder.
        is_new: whether the engine is SGLang 0.5 or later.
        tool_call: the user's choice, which wins; ``none`` for no parser.
        reasoning: the same for the reasoning parser.
    """
    template = read_chat_template(model_path)
    return Parsers(
        tool_call=_chosen(tool_call) if tool_call else _tool_call_parser(template, is_new),
        reasoning=_chosen(reasoning)
        if reasoning
        else _reasoning_parser(model_path, template, is_new),
    )


def read_chat_template(model_path: Path) -> str:
    """The chat template's text, from its own file or the tokenizer's configuration; "" if none."""
    own_file = model_path / "chat_template.jinja"
    if own_file.is_file():
        return own_file.read_text(encoding="utf-8")
    template = _read_json(model_path / "tokenizer_config.json").get("chat_template", "")
    if isinstance(template, list):  # several, by name
        template = "\n".join(str(entry.get("template", "")) for entry in template)
    return str(template)


def _tool_call_parser(template: str, is_new: bool) -> str | None:
    for tag, old_name, new_name in _TOOL_CALLS:
        if tag in template:
            return new_name if is_new else old_name
    return _FALLBACK[is_new]


def _reasoning_parser(model_path: Path, template: str, is_new: bool) -> str | None:
    if "</think>" not in template:
        return None
    config = _read_json(model_path / "config.json")
    described = f"{config.get('model_type', '')} {config.get('_name_or_path', '')}".lower()
    described += f" {model_path.name.lower()}"
    # Distilled DeepSeek models carry the architecture of Qwen2 or Llama, and R1's template.
    if "<｜Assistant｜>" in template:
        return "deepseek-r1"
    # Where the prompt itself opens the thought, the answer has no tag to tell it by. This parser
    # takes every answer for a thought at first; 0.5 makes the one for Qwen 3 do the same.
    if _OPENED_THOUGHT in template and not (is_new and "qwen3" in described):
        return "deepseek-r1"
    return next((parser for mark, parser in _THINKING if mark in described), None)


def _chosen(setting: str) -> str | None:
    return None if setting.lower() == NONE else setting


def _read_json(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
