"""Parsers by the marks in chat templates, here cut down to the lines that matter."""

import json
from pathlib import Path

import pytest

from app.engines.model_traits import Parsers, choose_parsers, read_chat_template

QWEN = r"{{- '<|im_start|>assistant\n' }} {{- '\n<tool_call>\n{\"name\": \"' }}"
QWEN3 = (
    QWEN + r"{%- set content = content.split('</think>')[-1] %} {{- '<think>\n\n</think>\n\n' }}"
)
ALWAYS_THINKS = QWEN + r"content.split('</think>') {{- '<|im_start|>assistant\n<think>\n' }}"
LLAMA_3_1 = (
    r"""{{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }} {{- "<|python_tag|>" + x }}"""
)
LLAMA_3_2 = r"""{{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }} {{- '"parameters": ' }}"""
MISTRAL = r"""{{- "[TOOL_CALLS] [" }}{{- "[AVAILABLE_TOOLS] [" }}"""
DEEPSEEK = r"{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'}}"
DEEPSEEK_R1 = DEEPSEEK + r"{% set content = content.split('</think>')[-1] %}"
CODER = r"{{- '\n<tool_call>\n<function=' + tool_call.name + '>\n' }}"
SMOLLM2 = r"{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'}}"
DISTILLED = r"{% set content = content.split('</think>')[-1] %}{{'<｜Assistant｜><think>\n'}}"


def folder(path: Path, template: object, **config: str) -> Path:
    (path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": template}), encoding="utf-8"
    )
    (path / "config.json").write_text(json.dumps(config))
    return path


def parsers(path: Path, is_new: bool, tool: str | None = None, think: str | None = None) -> Parsers:
    return choose_parsers(path, is_new=is_new, tool_call=tool, reasoning=think)


@pytest.mark.parametrize(
    ("template", "model_type", "old", "new"),
    [
        (QWEN, "qwen2", ("qwen25", None), ("qwen", None)),
        (QWEN3, "qwen3", ("qwen25", "qwen3"), ("qwen", "qwen3")),
        (QWEN3, "qwen3_moe", ("qwen25", "qwen3"), ("qwen", "qwen3")),
        (ALWAYS_THINKS, "qwen3", ("qwen25", "deepseek-r1"), ("qwen", "qwen3")),
        (ALWAYS_THINKS, "qwen2", ("qwen25", "deepseek-r1"), ("qwen", "deepseek-r1")),
        (MISTRAL, "mistral", ("mistral", None), ("mistral", None)),
        (LLAMA_3_1, "llama", ("llama3", None), ("llama3", None)),
        (LLAMA_3_2, "llama", ("llama3", None), ("llama3", None)),
        (DEEPSEEK, "deepseek_v3", ("deepseekv3", None), ("deepseekv3", None)),
        (DEEPSEEK_R1, "deepseek_v3", ("deepseekv3", "deepseek-r1"), ("deepseekv3", "deepseek-r1")),
        (DISTILLED, "qwen2", ("qwen25", "deepseek-r1"), ("hermes", "deepseek-r1")),
        (CODER, "qwen3_moe", (None, None), ("qwen3_coder", None)),
        (SMOLLM2, "llama", ("qwen25", None), ("hermes", None)),
        ("", "llama", ("qwen25", None), ("hermes", None)),
        (None, "llama", ("qwen25", None), ("hermes", None)),
    ],
)
def test_parsers_follow_the_template(
    template: object, model_type: str, old: tuple[str, str], new: tuple[str, str], tmp_path: Path
) -> None:
    path = folder(tmp_path, template, model_type=model_type)
    assert parsers(path, is_new=False) == Parsers(*old)
    assert parsers(path, is_new=True) == Parsers(*new)


def test_the_users_choice_wins(tmp_path: Path) -> None:
    path = folder(tmp_path, QWEN3, model_type="qwen3")
    assert parsers(path, True, "pythonic", "glm45") == Parsers("pythonic", "glm45")
    assert parsers(path, True, "none", "None") == Parsers(None, None)


def test_where_templates_are_found(tmp_path: Path) -> None:
    assert read_chat_template(tmp_path) == ""
    (tmp_path / "tokenizer_config.json").write_text("{broken")
    assert read_chat_template(tmp_path) == ""
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "<tool_call>"}]
    assert "<tool_call>" in read_chat_template(folder(tmp_path, named))
    (tmp_path / "chat_template.jinja").write_text("日本語", encoding="utf-8")
    assert read_chat_template(tmp_path) == "日本語"


def test_a_folder_without_configuration_has_no_reasoning_parser(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(QWEN3)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe")
    assert parsers(tmp_path, is_new=True).reasoning is None
