"""How one check ended."""

import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["passed", "failed", "warning", "n/a"]


@dataclass(frozen=True)
class Outcome:
    """One row of the table."""

    check: str
    status: Status
    seconds: float
    reason: str = ""
    """What was seen."""
    fix: str = ""
    """What to do about it."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class CheckEnded(Exception):
    """Ends a check with something else than success."""

    status: Status

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


class Failed(CheckEnded):
    """The model breaks its contract."""

    status: Status = "failed"


class Questionable(CheckEnded):
    """It works here, and may not where it is deployed."""

    status: Status = "warning"


class NotApplicable(CheckEnded):
    """It can't be found out with this model."""

    status: Status = "n/a"


def require(holds: object, reason: str, fix: str = "") -> None:
    """Fail the check unless something holds."""
    if not holds:
        raise Failed(reason, fix)


def run_check(name: str, check: Callable[[], str | None], fix: str = "") -> Outcome:
    """Run one check.

    Args:
        name: of the row in the table.
        check: what it returns is worth telling when it passed.
        fix: where to look when it fails and does not know better itself.
    """
    started = time.monotonic()
    try:
        told = check() or ""
    except CheckEnded as ended:
        status, told = ended.status, ended.reason
        fix = ended.fix or (fix if status == "failed" else "")
    except Exception as error:
        traceback.print_exc()  # standard error is the log
        status, told = "failed", describe(error)
        fix = fix or "See the log of the validation."
    else:
        status, fix = "passed", ""
    return Outcome(name, status, round(time.monotonic() - started, 2), told, fix)


def describe(error: BaseException) -> str:
    """An exception in one line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"
