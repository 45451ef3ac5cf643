"""Runs the suite in the model's environment: ``python -m contract FOLDER SCRATCH [--http]``.

Standard output carries one JSON object for each event and nothing else: the name of a check when it
begins, its outcome when it has ended. Whatever MLflow, the model or its engine print goes to
standard error.
"""

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TextIO

from . import answers, over_http, processes
from .entrypoint import Entrypoint
from .outcome import Outcome, run_check
from .subject import Subject

Check = Callable[[], str | None]

# Name, check, and where to look when it fails.
_CHECKS: tuple[tuple[str, Callable[[Subject], str | None], str], ...] = (
    (
        "logging it again starts nothing",
        processes.logging_starts_nothing,
        "load_context and predict must do nothing heavy while MLflow logs (logging_time.py).",
    ),
    (
        "predict",
        answers.predict,
        "The log has the engine's last lines; `python -m app serve` shows more of them.",
    ),
    (
        "predict_stream gives the same text",
        answers.stream,
        "Both must be assembled by the same code (app/schemas/answer.py).",
    ),
    ("ids", answers.ids, "See app/schemas/chat_agent_answer.py."),
    (
        "finish reason and usage",
        answers.finish_and_usage,
        "The engine must report usage in streams, and its last chunk must reach the caller.",
    ),
    (
        "tool calls",
        answers.tools,
        "Set TOOL_CALL_PARSER to SGLang's parser for this model; small models may need an example.",
    ),
    (
        "errors",
        answers.errors,
        "Raise MlflowExceptions with the code of the caller's fault (model_wrapper/errors.py).",
    ),
    (
        "closing a stream aborts it",
        processes.close,
        "Closing the generator must reach the engine (/abort_request).",
    ),
    (
        "two workers, one engine",
        processes.two_workers,
        "Workers find the engine through a file in TMPDIR (app/engines/shared.py).",
    ),
    (
        "deadline",
        processes.deadline,
        "REQUEST_TIMEOUT must end an answer with DEADLINE_EXCEEDED.",
    ),
    ("Databricks: time limit", processes.time_limit, ""),
    (
        "Databricks: largest request",
        processes.payload,
        "Requests that are too long must be refused by the engine, and it must live on.",
    ),
    (
        "mlflow.models.predict",
        processes.mlflow_predict,
        "`mlflow models predict` with the same model shows the whole output.",
    ),
)
_SERVING = "`mlflow models serve` by hand shows the whole output."
_OVER_HTTP = "MLflow's server passes on what the model gives: compare with the checks above."
_LOADING = "The log has the whole error. Were all of the model's code and requirements logged?"


def http_checks(subject: Subject) -> Iterator[tuple[str, Check, str]]:
    """Those against ``mlflow models serve``, which runs meanwhile."""
    server: over_http.Server | None = None
    started = over_http.serving(subject)

    def start() -> None:
        nonlocal server
        server = started.__enter__()

    yield "HTTP: mlflow models serve", start, _SERVING
    if server is None:
        return
    try:
        yield "HTTP: answers", partial(over_http.answers, subject, server), _OVER_HTTP
        yield "HTTP: errors", partial(over_http.errors, subject, server), _OVER_HTTP
    finally:
        started.__exit__(None, None, None)


def run(subject: Subject, *, http: bool, tell: Callable[[dict[str, object]], None]) -> None:
    """Run the suite and tell each step."""

    def one(name: str, check: Check, fix: str) -> Outcome:
        tell({"begins": name})
        outcome = run_check(name, check, fix)
        tell(outcome.as_dict())
        return outcome

    loaded = one("loading, from a path with spaces and Japanese", subject.load, _LOADING)
    if loaded.status != "passed":
        return
    try:
        for name, check, fix in _CHECKS:
            outcome = one(name, partial(check, subject), fix)
            # Without an answer there is nothing to compare the others with.
            if check is answers.predict and outcome.status == "failed":
                return
        for name, over, fix in http_checks(subject) if http else ():
            one(name, over, fix)
    finally:
        one("nothing is left behind", partial(processes.no_orphans, subject), "End it by hand.")
    # Only now: a GPU has no room for two engines.
    if command := (subject.description.metadata or {}).get("entrypoint"):
        with closing(Entrypoint(subject, str(command)).checks()) as checks:
            for name, check, fix in checks:
                one(name, check, fix)


def _own_stdout() -> TextIO:
    """Standard output for us alone; everybody else's becomes standard error."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    return ours


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--env-manager", default="local")
    parser.add_argument("--http", action="store_true")
    arguments = parser.parse_args()
    output = _own_stdout()
    # Standard error is the log; the engine's own lines belong there as well.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s | %(message)s")
    # Whoever started us wants an end in good order: servers stopped, engines ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    subject = Subject(arguments.folder, arguments.scratch, arguments.env_manager)
    run(
        subject,
        http=arguments.http,
        tell=lambda event: print(json.dumps(event), file=output, flush=True),
    )
    output.close()


if __name__ == "__main__":
    main()
