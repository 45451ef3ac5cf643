"""A model hub on this machine: the few routes that `huggingface_hub` asks when it downloads."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serve(repository: str, files: dict[str, bytes]) -> Iterator[str]:
    """Serve `files` as the repository's main branch; gives the hub's URL (HF_ENDPOINT)."""
    tree = [
        {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
        for name, data in files.items()
    ]
    answers = {
        f"/api/models/{repository}/revision/main": {
            "id": repository,
            "sha": COMMIT,
            "siblings": [{"rfilename": name} for name in files],
        },
        f"/api/models/{repository}/tree/{COMMIT}": tree,
    }

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            prefix = f"/{repository}/resolve/{COMMIT}/"
            if path in answers:
                self.reply(200, json.dumps(answers[path]).encode(), {})
            elif path.startswith(prefix) and (name := path.removeprefix(prefix)) in files:
                etag = f'"{hashlib.sha1(files[name]).hexdigest()}"'
                self.reply(200, files[name], {"ETag": etag, "X-Repo-Commit": COMMIT})
            else:
                self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        do_HEAD = do_GET  # noqa: N815

        def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for header, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output to itself."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
