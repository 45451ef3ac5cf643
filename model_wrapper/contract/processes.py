"""Checks of what the model does to the machine: engines, workers, deadlines, logging."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .engines import engine_url, running_engines, running_requests, wait_until
from .outcome import Failed, NotApplicable, Questionable, require
from .subject import GREEDY, QUESTION, Subject

_LONG = 1500
_SHORT = "2"
_ABORT_WITHIN = 10.0
# https://docs.databricks.com/aws/en/machine-learning/model-serving/model-serving-limits
_PAYLOAD = 16 * 2**20
_AGENT_PAYLOAD = 4 * 2**20
_EXECUTION = 297.0


def close(subject: Subject) -> str:
    """Closing a stream aborts its generation in the engine."""
    url = engine_url(subject.scratch, subject.config)
    if url is None or running_requests(url) is None:
        raise NotApplicable("the engine does not tell how many requests it works on")
    length = _long(subject)
    chunks = subject.chunks(subject.request(temperature=0.7, max_tokens=length, ignore_eos=True))
    next(chunks)
    started = time.monotonic()
    chunks.close()

    def idle() -> bool:
        # Older engines count anew only when there is a request.
        subject.ask(subject.request(temperature=0.0, max_tokens=1))
        return running_requests(url) == 0

    require(
        wait_until(idle, _ABORT_WITHIN),
        f"the engine still generates {_ABORT_WITHIN:.0f} s after the stream was closed",
        "predict_stream must abort in the engine when it is closed.",
    )
    return f"idle {time.monotonic() - started:.1f} s after close"


def two_workers(subject: Subject) -> str:
    """A second process with the model uses the first one's engine."""
    if not running_engines(subject.scratch):
        raise NotApplicable("the model has no engine of its own (ENGINE_URL)")
    answer = _ask_in_worker(subject, subject.request(**GREEDY))
    require("text" in answer, f"the second worker fails: {answer.get('error')}")
    same = subject.gives(lambda text: text == answer["text"])
    require(same, f"the second worker answers {answer['text'][:60]!r}")
    engines = len(running_engines(subject.scratch))
    require(
        engines == 1,
        f"two workers run {engines} engines, each with its own copy of the weights",
        "Workers share an engine through files in TMPDIR: it must be one folder for all of them.",
    )
    return "one engine, equal answers"


def deadline(subject: Subject) -> str:
    """An answer that takes too long ends with DEADLINE_EXCEEDED, not in silence."""
    length = _long(subject)
    body = subject.request(QUESTION, temperature=0.0, max_tokens=length, ignore_eos=True)
    answer = _ask_in_worker(subject, body, REQUEST_TIMEOUT=_SHORT)
    if "text" in answer:
        raise NotApplicable(f"{length} tokens took less than {_SHORT} s")
    require(
        answer["code"] == "DEADLINE_EXCEEDED",
        f"with REQUEST_TIMEOUT={_SHORT} a long answer ends with {answer['code']}: "
        f"{answer['error'][:100]}",
    )
    require(
        answer["seconds"] < 10, f"REQUEST_TIMEOUT={_SHORT} ended after {answer['seconds']:.0f} s"
    )
    return f"after {answer['seconds']:.1f} s with REQUEST_TIMEOUT={_SHORT}"


def time_limit(subject: Subject) -> str:
    """The model gives up before Databricks does, so that the caller hears why."""
    limit = float(_setting(subject, "request_timeout"))
    if limit > _EXECUTION:
        raise Questionable(
            f"an answer may take {limit:.0f} s; Databricks ends a request after "
            f"{_EXECUTION:.0f} s on some workspaces, without the model's reason",
            "For Databricks: leave --config request_timeout out when logging (290 then), or set "
            "REQUEST_TIMEOUT=290 on the endpoint.",
        )
    return f"{limit:.0f} s"


def payload(subject: Subject) -> str:
    """The largest request that Databricks lets through is answered or refused, and survived."""
    limit = _AGENT_PAYLOAD if subject.task.startswith("agent/") else _PAYLOAD
    words = "colour " * (limit // 7 - 200)
    started = time.monotonic()
    try:
        subject.ask(subject.request([{"role": "user", "content": words}], **GREEDY))
        ending = "answered"
    except Exception as error:
        code = getattr(error, "error_code", type(error).__name__)
        ending = f"refused with {code}"
        require(
            code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST"),
            f"a request of {limit >> 20} MB, which Databricks lets through, ends with {code}",
        )
    seconds = time.monotonic() - started
    require(
        seconds < _EXECUTION, f"it took {seconds:.0f} s, and Databricks waits {_EXECUTION:.0f} s"
    )
    require(subject.ask().text.strip(), "the next request gets no answer")
    return f"{limit >> 20} MB {ending} in {seconds:.1f} s"


def logging_starts_nothing(subject: Subject) -> str:
    """Logging the model again, which loads and asks it twice, starts no engine."""
    scratch = subject.scratch / "logging"
    scratch.mkdir()
    called = scratch / "called"
    python = scratch / "python"
    python.write_text(f"#!/bin/sh\ntouch '{called}'\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    started = time.monotonic()
    done = _run(
        subject,
        "log_again",
        str(subject.folder),
        TMPDIR=str(scratch),
        ENGINE_PYTHON=str(python),
        PYTHONPATH=str(subject.code),  # as its author had it
    )
    seconds = time.monotonic() - started
    require(done.returncode == 0, f"it can't be logged again: {_last_line(done.stderr)}")
    require(
        not called.exists() and not running_engines(scratch),
        "logging the model started an engine",
        "log_model calls load_context and predict on a machine that may have no GPU.",
    )
    return f"{seconds:.1f} s, no engine"


def mlflow_predict(subject: Subject) -> str:
    """MLflow's own check before a deployment, ``mlflow.models.predict``."""
    if any(file.is_symlink() for file in (subject.folder / "artifacts").rglob("*")):
        raise NotApplicable(
            "MLflow refuses links to the artifacts, which are on another disk than TMPDIR: set it "
            "to a folder on theirs"
        )
    done = _run(
        subject,
        "mlflow_predict",
        str(subject.folder),
        json.dumps(subject.request(**GREEDY)),
        subject.env_manager,
    )
    if done.returncode != 0:
        raise Failed(_last_line(done.stderr), "See the log of the validation.")
    same = subject.gives(lambda text: json.dumps(text)[1:-1] in done.stdout)
    require(same, f"it answers something else: {done.stdout[-200:]!r}")
    return f"env_manager={subject.env_manager}"


def no_orphans(subject: Subject) -> str:
    """After ``shutdown`` nothing of the model runs on."""
    before = len(running_engines(subject.scratch))
    subject.shutdown()
    require(
        wait_until(lambda: not running_engines(subject.scratch), 15),
        "the engine runs on after shutdown",
        "It keeps the GPU's memory: end it by hand.",
    )
    return "engine ended" if before else "no engine of its own"


def _long(subject: Subject) -> int:
    """Tokens of an answer that takes long and still has room in the model's context."""
    context = None
    with suppress(NotApplicable):
        context = _setting(subject, "context_length")
    return min(_LONG, int(context) // 2) if context else _LONG


def _setting(subject: Subject, name: str) -> Any:
    server = subject.config.get("server") or {}
    for value in (os.environ.get(name.upper()), subject.config.get(name), server.get(name)):
        if value is not None:
            return value
    try:
        # The model's own code, which loading put on the path.
        from app.settings import Settings
    except ImportError:
        raise NotApplicable("the model's code has no such setting") from None
    return Settings.model_fields[name].default


def _ask_in_worker(subject: Subject, body: dict[str, Any], **environment: str) -> dict[str, Any]:
    done = _run(subject, "worker", str(subject.folder), json.dumps(body), **environment)
    if done.returncode != 0:
        raise Failed(f"the second worker ended: {_last_line(done.stderr)}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _run(
    subject: Subject, module: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    package = Path(__file__).resolve().parent
    done = subprocess.run(
        [subject.python, "-m", f"{package.name}.{module}", *arguments],
        cwd=package.parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=900,
        check=False,
    )
    sys.stderr.write(done.stderr)  # into the log
    return done


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it ended without a word"
