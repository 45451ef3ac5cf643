"""Variables of an endpoint: which names sound secret, and what is read back as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_wrapper.targets.base import TargetError
from model_wrapper.targets.environment import open_secrets, parse


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "API_KEY", "ENGINE_API_KEY", "AWS_SECRET_ACCESS_KEY", "db_password", "MYTOKEN"],
)
def test_a_name_that_sounds_secret(name: str) -> None:
    assert open_secrets({name: "x"}) == [name]
    # There is nothing to see in these.
    assert open_secrets({name: "{{secrets/scope/key}}"}) == []
    assert open_secrets({name: ""}) == []


@pytest.mark.parametrize(
    "name",
    ["MAX_TOTAL_TOKENS", "API_KEY_FILE", "ALLOW_NO_API_KEY", "TOKENIZER_PATH", "TOKENIZERS_LOG",
     "CONTEXT_LENGTH", "GOOGLE_CREDENTIALS_FILE"],
)  # fmt: skip
def test_a_name_that_only_looks_like_one(name: str) -> None:
    assert open_secrets({name: "x"}) == []


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
PLAIN = st.text(max_size=30).filter(lambda text: "secrets/" not in text and not set("{}") & {*text})


@given(st.dictionaries(NAMES, PLAIN, max_size=5))
def test_a_value_may_be_any_text(environment: dict[str, str]) -> None:
    assert parse(f"{name}={value}" for name, value in environment.items()) == environment


@given(st.text(alphabet="{}/ secrtab", max_size=25))
def test_no_half_reference_gets_through(value: str) -> None:
    """What is taken is a whole reference, or has nothing of one."""
    try:
        found = parse([f"A={value}"])["A"]
    except TargetError:
        return
    whole = found.startswith("{{secrets/") and found.endswith("}}") and found.count("/") == 2
    assert whole or not any(part in found for part in ("{{", "}}", "secrets/"))
