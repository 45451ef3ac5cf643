"""The image's HEALTHCHECK: healthy when the server has a model that answers.

Asks /health/ready and shows what it says, so that `docker inspect` shows the phase of a start.
Plain sockets on purpose: urllib would send the question to an HTTP_PROXY of the environment.
"""

import http.client
import os
import sys


def main() -> int:
    """Return the exit status that Docker wants: 0 healthy, 1 not."""
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=4)
    try:
        connection.request("GET", "/health/ready")
        answer = connection.getresponse()
        body = answer.read(2000).decode("utf-8", "replace")
        sys.stdout.write(f"{answer.status} {body}\n")
    except OSError as error:
        sys.stdout.write(f"no answer: {error}\n")
        return 1
    return 0 if answer.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
