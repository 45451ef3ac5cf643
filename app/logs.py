"""Sets the logging up, once, at the start of the program."""

import logging
import sys

_FORMAT = "%(asctime)s %(levelname).1s %(name)s | %(message)s"


def set_up_logging(level: str) -> None:
    """Log to standard error, the engine's lines under the name ``engine``."""
    logging.basicConfig(level=level.upper(), format=_FORMAT, datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
