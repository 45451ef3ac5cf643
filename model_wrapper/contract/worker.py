"""Another process that has the model: answer one request, say how it went.

``python -m contract.worker FOLDER REQUEST``
"""

import json
import sys
import time
from pathlib import Path

from .subject import Subject

if __name__ == "__main__":
    subject = Subject(Path(sys.argv[1]), Path())
    subject.load()
    body = json.loads(sys.argv[2])
    subject.ask(subject.request(temperature=0.0, max_tokens=1))  # it is up now
    started = time.monotonic()
    result: dict[str, object]
    try:
        result = {"text": subject.ask(body).text}
    except Exception as error:
        code = getattr(error, "error_code", type(error).__name__)
        result = {"code": code, "error": str(error)}
    print(json.dumps(result | {"seconds": time.monotonic() - started}))  # noqa: T201  its only output
