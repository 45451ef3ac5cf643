"""``python -m model_wrapper query --url``: the command for endpoints, before this server."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from model_wrapper.cli import cli

QUESTION = "What is the capital of France?"


def query(url: str, *options: str) -> str:
    arguments = ["query", "any-name", QUESTION, "--url", url, "--max-tokens", "12"]
    result = CliRunner().invoke(cli, [*arguments, "--temperature", "0", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_the_text(url: str, options: tuple[str, ...]) -> None:
    assert "Paris" in query(url, *options)


def test_all_of_the_answer(url: str) -> None:
    answer = json.loads(query(url, "--json"))
    assert "Paris" in answer["messages"][0]["content"]
    *pieces, last = [json.loads(line) for line in query(url, "--json", "--stream").splitlines()]
    assert "Paris" in "".join(event["delta"]["content"] for event in [*pieces, last])
    assert pieces
    assert last["usage"]["completion_tokens"] <= 12


def test_what_the_server_refuses(url: str) -> None:
    arguments = ["query", "any-name", QUESTION, "--url", url, "--temperature", "-1"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert "400 INVALID_PARAMETER_VALUE" in result.stderr
