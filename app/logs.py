"""Sets the logging up, once, at the start of the program."""

import logging
import sys

_FORMAT = "%(asctime)s %(levelname).1s %(name)s | %(message)s"


def set_up_logging(level: str) -> None:
    """Log to standard error, the engine's lines under the name ``engine``."""
    # Our lines tell neither file, thread nor process, so none is looked up for each of them.
    # https://docs.python.org/3/howto/logging.html#optimization
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level.upper(), format=_FORMAT, datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
