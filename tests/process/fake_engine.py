"""Stands in for the Python of the engine's environment: ``fake_engine.py BEHAVIOUR ARGS…``.

The server calls it in three ways: ``-c`` asks for SGLang's version, a path ending in
``prepare.py`` for the model's folder, and ``-m sglang.launch_server`` starts the engine. What
it then does is named by BEHAVIOUR, for the failure that it shows:

========================  =====================================================================
works                     loads in no time and answers every chat with as many words as asked for
exits-at-load             prints a reason and ends with status 3
killed-at-load            is killed while it loads, as by the kernel when memory runs out, but for
                          its third start, when it works
dies-at-warm-up           loses such a worker at its first question, which it never answers; at its
                          second start it works
has-worker                works, with a child that bears the name of SGLang's scheduler
hangs-at-load             never answers
no-model                  the model can't be had
hangs-at-model            getting the model takes for ever
ignores-sigterm           works, but SIGTERM does not end it
outlived-by-child         works, with a child that is deaf to SIGTERM and that it does not end
pours                     works, and answers a stream with a megabyte a word, as fast as it is read
floods-log                prints a megabyte before it works, without a single line break at its end
========================  =====================================================================

Only the standard library is needed. When ``$FAKE_ENGINE_RECORD`` is set, each call adds a line
with its arguments and its environment to that file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "pretended"
SECONDS_PER_WORD = 0.02
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(3600)
"""


WORKER = """
import ctypes, time
ctypes.CDLL(None).prctl(15, b"sglang::schedul", 0, 0, 0)  # PR_SET_NAME
print("worker named", flush=True)
time.sleep(3600)
"""


class Chat(BaseHTTPRequestHandler):
    """The few routes of SGLang that the server uses."""

    protocol_version = "HTTP/1.1"
    word = "word "
    worker: subprocess.Popen[bytes] | None = None  # dies at the first question

    def do_GET(self) -> None:
        known = {
            "/v1/models": {"data": [{"id": MODEL}]},
            "/server_info": {"version": "0.5.23", "tool_call_parser": "hermes"},
        }
        self._send(known.get(self.path, {}), 200 if self.path in known else 404)

    def do_POST(self) -> None:
        if self.worker is not None and starts_so_far() == 1:
            self.worker.kill()
            time.sleep(3600)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/abort_request":
            self._send({})
        elif body.get("stream"):
            self._stream(body.get("max_tokens", 3))
        else:
            time.sleep(SECONDS_PER_WORD * body.get("max_tokens", 3))
            message = {"role": "assistant", "content": "word " * body.get("max_tokens", 3)}
            self._send({"choices": [{"message": message, "finish_reason": "length"}]})

    def _stream(self, words: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(words):
            self._event({"choices": [{"delta": {"content": self.word}}]})
            time.sleep(SECONDS_PER_WORD)
        self._event({"choices": [{"delta": {}, "finish_reason": "length"}]})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, data: Any) -> None:
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _send(self, data: Any, status: int = 200) -> None:
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Say nothing of requests."""


def prepare(behaviour: str) -> None:
    if behaviour == "no-model":
        sys.exit("MODEL nowhere: there is no such folder")
    if behaviour == "hangs-at-model":
        print("model: downloading", file=sys.stderr, flush=True)
        time.sleep(3600)
    folder = sys.argv[sys.argv.index("--model") + 1]
    print(json.dumps({"path": folder, "served_model_name": MODEL}))


def launch(behaviour: str) -> None:
    print("loading the weights", flush=True)
    if behaviour == "exits-at-load":
        print("CUDA out of memory: tried to allocate 20 GiB", flush=True)
        sys.exit(3)
    if behaviour == "killed-at-load" and starts_so_far() < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour in ("has-worker", "dies-at-warm-up"):
        worker = subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        worker.stdout.readline()  # it has its name
        Chat.worker = worker if behaviour == "dies-at-warm-up" else None
    if behaviour == "hangs-at-load":
        time.sleep(3600)
    if behaviour == "ignores-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "outlived-by-child":
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        subprocess.Popen(
            [sys.executable, "-c", deaf + "print('deaf', flush=True); time.sleep(3600)"]
        )
    if behaviour == "pours":
        Chat.word = "w" * 2**20
    if behaviour == "floods-log":
        for number in range(10_000):
            print(f"line {number} of the flood ".ljust(50, "."), flush=True)
        print("x" * 500_000, end="", flush=True)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Chat).serve_forever()


def starts_so_far() -> int:
    """How often the engine was started, this time included."""
    calls = Path(os.environ["FAKE_ENGINE_RECORD"]).read_text(encoding="utf-8").splitlines()
    return sum("sglang.launch_server" in json.loads(call)["arguments"] for call in calls)


def main() -> None:
    behaviour, how = sys.argv[1:3]
    if record := os.environ.get("FAKE_ENGINE_RECORD"):
        call = {"arguments": sys.argv[2:], "environment": dict(os.environ)}
        with Path(record).open("a", encoding="utf-8") as file:
            file.write(json.dumps(call) + "\n")
    if how == "-c":
        print("0.5.23")
    elif how.endswith("prepare.py"):
        prepare(behaviour)
    else:
        launch(behaviour)


if __name__ == "__main__":
    main()
