"""A server that speaks OpenAI's chat without a model, and has the fault that ``FAULT`` names."""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULT = os.environ.get("FAULT", "")
WORDS = ["Red, ", "green, ", "blue."]
METRICS = "# HELP up Whether it is up.\n# TYPE up gauge\nup 1.0\n"


class Toy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.give(200, json.dumps({"data": [] if FAULT == "no model" else [{"id": "toy"}]}))
        elif self.path == "/metrics" and FAULT != "no metrics":
            self.give(200, "{}" if FAULT == "metrics of its own" else METRICS)
        elif self.path in ("/health", "/ping"):
            self.give(200, "\n")
        else:
            self.give(404, "{}")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        try:
            body = json.loads(raw)
            sound = bool(body["messages"]) and isinstance(body["temperature"], int)
        except ValueError:
            body, sound = {}, False
        if "model" not in body and FAULT == "asks for the model":
            sound = False
        if not sound:
            error = {"message": "no", "type": "invalid_request_error"}
            told = {"error_code": "X"} if FAULT == "errors of its own" else {"error": error}
            self.give(400, json.dumps(told))
        elif body.get("stream") and FAULT != "no stream":
            events = [*map(chunk, self.words()), "[DONE]"]
            if FAULT == "no end":
                events.pop()
            self.give(200, "".join(f"data: {each}\n\n" for each in events), "text/event-stream")
        else:
            message = {"role": "assistant", "content": "".join(self.words())}
            self.give(200, json.dumps({"choices": [{"message": message}]}))

    def words(self) -> list[str]:
        if FAULT == "mute":
            return []
        return ["Pink."] if FAULT == "two minds" and self.path == "/invocations" else WORDS

    def give(self, status: int, body: str, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        pass


def chunk(word: str) -> str:
    return json.dumps({"choices": [{"delta": {"content": word}}]})


if __name__ == "__main__":
    if FAULT == "no start":
        sys.exit("its weights are gone")
    ending = signal.SIG_IGN if FAULT == "does not end" else lambda *_: sys.exit(0)
    signal.signal(signal.SIGTERM, ending)
    address = (os.environ["HOST"], int(os.environ["PORT"]))
    ThreadingHTTPServer(address, Toy).serve_forever()
