"""Asks a server that runs in a container, from outside, plain and streamed, and judges the answers.

    python ask.py http://127.0.0.1:8080

Standard library only, since it runs before anything is installed. Prints the two transcripts and
one line for each check, "PASS: ..." or "FAIL: ..."; the exit status is the number of failures.
"""

import json
import sys
import time
import urllib.request
from typing import Any

# The model's greedy answer starts with "1. Red", by a wide margin on every device tried.
QUESTION = "Name three colours."
EXPECTED = "Red"
OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({})
)  # localhost, whatever the proxy

failures = 0


def check(what: str, holds: bool, seen: object = "") -> None:
    """Print and count one verdict."""
    global failures
    failures += not holds
    print(f"PASS: {what}" if holds else f"FAIL: {what}; seen: {seen!r}")


def post(url: str, stream: bool) -> Any:
    """Send the question as a ChatAgent request."""
    body = {
        "messages": [{"role": "user", "content": QUESTION}],
        "custom_inputs": {"temperature": 0, "max_tokens": 40},
        "stream": stream,
    }
    request = urllib.request.Request(
        f"{url}/invocations",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    return OPENER.open(request, timeout=120)


def ask_plain(url: str) -> str:
    """Ask for the whole answer and return its text."""
    started = time.monotonic()
    with post(url, stream=False) as response:
        answer = json.load(response)
    print(f"plain, {time.monotonic() - started:.2f} s: {json.dumps(answer)}")
    messages = answer["messages"]
    text = messages[0]["content"]
    check(
        "the plain answer is one assistant message",
        [m["role"] for m in messages] == ["assistant"],
        answer,
    )
    check(f"it is about the question ({EXPECTED!r} in it)", EXPECTED in text, text)
    check(
        "it carries usage and a finish reason",
        bool(answer.get("usage")) and bool(answer.get("finish_reason")),
        answer,
    )
    return str(text)


def ask_streamed(url: str) -> str:
    """Ask for a stream, judge its form and return the joined text."""
    started = time.monotonic()
    arrivals, events = [], []
    with post(url, stream=True) as response:
        kind = response.headers["Content-Type"]
        for line in response:
            if line.strip():
                arrivals.append(time.monotonic() - started)
                events.append(line.decode().rstrip("\r\n"))
    print(f"streamed, first event after {arrivals[0]:.2f} s, last after {arrivals[-1]:.2f} s:")
    for event in [*events[:2], "...", *events[-2:]]:
        print(f"  {event}")
    check("the stream is an event stream", kind.startswith("text/event-stream"), kind)
    check("every event is a data line", all(event.startswith("data: ") for event in events), events)
    check("it ends with [DONE]", events[-1] == "data: [DONE]", events[-1])
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    ids = {chunk["delta"]["id"] for chunk in chunks}
    check("all chunks are one message", len(ids) == 1, ids)
    check(
        "the last chunk has usage and a finish reason",
        bool(chunks[-1].get("usage")) and bool(chunks[-1].get("finish_reason")),
        chunks[-1],
    )
    check(
        "the answer comes in pieces over time",
        len(chunks) > 5 and arrivals[0] < arrivals[-1] / 2,
        arrivals,
    )
    return "".join(chunk["delta"]["content"] for chunk in chunks)


def main(url: str) -> int:
    """Run all checks against the server at ``url``."""
    plain = ask_plain(url)
    streamed = ask_streamed(url)
    check("streamed and plain answer are the same text", plain == streamed, (plain, streamed))
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1].rstrip("/")))
