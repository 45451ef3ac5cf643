"""An engine that answers from a script: as many words as asked for, one each few milliseconds.

    .venv/bin/python -m bench.scripted_engine --port 0 --pause 0.02

It prints its port, speaks as much of SGLang's HTTP as the gateway uses, and does no work of its
own, so that what is measured is the gateway. Frames are made once and written as they are.
"""

import argparse
import asyncio
import contextlib
import json

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n"
_MODEL = "scripted"


def _frame(delta: object, finish_reason: str | None = None, usage: object = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    chunk = {
        "id": "0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": _MODEL,
        "choices": [] if usage else [choice],
        "usage": usage,
    }
    data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_FIRST = _frame({"role": "assistant", "content": ""})
_WORD = _frame({"content": " word"})
_LAST = _frame({}, "length")
_DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class ScriptedEngine:
    """Answers one connection after another.

    Args:
        pause: seconds between two words.
    """

    def __init__(self, pause: float) -> None:
        self._pause = pause

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of one connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = head.partition("content-length: ")[2].partition("\r\n")[0]
                body = json.loads(await reader.readexactly(int(length or 0)) or b"{}")
                await self._answer(head.split(" ", 2)[1], body, writer)
        writer.close()

    async def _answer(
        self, path: str, body: dict[str, object], writer: asyncio.StreamWriter
    ) -> None:
        words = int(str(body.get("max_tokens", 16)))
        usage = {"prompt_tokens": 8, "completion_tokens": words, "total_tokens": 8 + words}
        if path == "/v1/models":
            _whole(writer, {"data": [{"id": _MODEL}]})
        elif path != "/v1/chat/completions":
            _whole(writer, {"version": "0.5.23"})
        elif body.get("stream"):
            writer.write(
                _HEAD % b"text/event-stream" + b"transfer-encoding: chunked\r\n\r\n" + _FIRST
            )
            for _ in range(words):
                writer.write(_WORD)
                await writer.drain()
                await asyncio.sleep(self._pause)
            writer.write(_LAST + _frame({}, usage=usage) + _DONE)
        else:
            await asyncio.sleep(self._pause * words)
            message = {"role": "assistant", "content": " word" * words}
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            _whole(writer, {"id": "x", "choices": [choice], "usage": usage})
        await writer.drain()


def _whole(writer: asyncio.StreamWriter, answer: object) -> None:
    data = json.dumps(answer).encode()
    head = _HEAD % b"application/json"
    writer.write(head + f"content-length: {len(data)}\r\n\r\n".encode() + data)


async def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.02)
    options = parser.parse_args()
    server = await asyncio.start_server(
        ScriptedEngine(options.pause).serve, "127.0.0.1", options.port
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
