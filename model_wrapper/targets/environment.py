"""Environment variables of a served model: ``NAME=value`` and references to secrets."""

import re
from collections.abc import Iterable

from model_wrapper.targets.base import TargetError

# Databricks: "up to 30 environment variables for a served model".
MOST = 30

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"\{\{secrets/[A-Za-z0-9_.@-]{1,128}/[A-Za-z0-9_.@-]{1,128}\}\}")
_LIKE_A_SECRET = re.compile(r"\{\{|\}\}|secrets/")
# Not MAX_TOTAL_TOKENS, TOKENIZER_PATH, API_KEY_FILE or ALLOW_NO_API_KEY.
_SECRET_NAME = re.compile(
    r"(?!ALLOW_).*(TOKEN(?!S|IZ)|SECRET|PASSWORD|API_KEY|CREDENTIAL)(?!.*_(FILE|PATH)$)",
    re.IGNORECASE,
)


def parse(pairs: Iterable[str]) -> dict[str, str]:
    """``NAME=value`` arguments as a mapping.

    A value that only looks like a reference to a secret is refused: Databricks would hand it to
    the container as the plain text that it is.

    Raises:
        TargetError: a pair is no good; it is named.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise TargetError(f"--env {name!r}: give NAME=value", True)
        if name in found:
            raise TargetError(f"--env {name} is given twice", True)
        if _LIKE_A_SECRET.search(value) and not _SECRET.fullmatch(value):
            raise TargetError(
                f"--env {name}: a reference to a secret is written {{{{secrets/scope/key}}}}, "
                "exactly so, without blanks and with nothing around it; Databricks takes anything "
                "else for plain text",
                True,
            )
        found[name] = value
    return found


def check_count(environment: dict[str, str]) -> None:
    """Refuse more variables than an endpoint takes.

    Raises:
        TargetError: there are too many.
    """
    if len(environment) > MOST:
        raise TargetError(
            f"{len(environment)} environment variables; Databricks takes at most {MOST}", True
        )


def open_secrets(environment: dict[str, str]) -> list[str]:
    """Names that sound secret and whose value everybody who sees the endpoint can read."""
    return [
        name
        for name, value in environment.items()
        if value and _SECRET_NAME.match(name) and not _SECRET.fullmatch(value)
    ]
