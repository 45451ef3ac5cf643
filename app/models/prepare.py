"""Turns MODEL into a folder that the engine can load, and says where it is.

    ENGINE_PYTHON app/models/prepare.py --model MODEL --cache DIR

MODEL is a local folder, a built-in name or a hub id (`org/name`). Progress goes to stderr; the last
line of stdout is `{"path": ..., "served_model_name": ...}`. When MODEL can't be had, one line on
stderr says why and the exit status is 2.

This is a script of its own, run by path with the engine's Python, because downloading and
converting need the engine's packages and the gateway's environment has none of them.
"""

import argparse
import difflib
import json
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING or __package__:
    from app.models import folder_check, hub_snapshot, smollm2
    from app.models.notices import ModelUnavailable
else:  # Run by path: the neighbours are top-level modules, and `app` can't be imported.
    import folder_check
    import hub_snapshot
    import smollm2
    from notices import ModelUnavailable

BUILT_IN = (smollm2.NAME,)
EXIT_UNAVAILABLE = 2

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


class PreparedModel(NamedTuple):
    """A model folder that the engine can load, and the name that clients call it by."""

    path: Path
    served_model_name: str


def prepare(model: str, cache: Path) -> PreparedModel:
    """Find, download or convert `model`.

    A folder that exists wins over a hub id that is spelled the same, as it does in transformers.

    Raises:
        ModelUnavailable: with a sentence that says what to do.
    """
    folder = Path(model).expanduser()
    if model and folder.is_dir():
        folder = folder.resolve()
        folder_check.require_complete(folder, f"MODEL {folder}")
        return PreparedModel(folder, folder.name)
    if folder.is_file():
        raise ModelUnavailable(
            f"MODEL {model} is a file; name the folder that holds config.json, the weights and the "
            "tokenizer"
        )
    if model == smollm2.NAME:
        return PreparedModel(smollm2.prepare(cache), smollm2.NAME)
    if _HUB_ID.fullmatch(model):
        return PreparedModel(hub_snapshot.download(model), model)
    raise ModelUnavailable(_not_understood(model))


def _not_understood(model: str) -> str:
    if model.startswith((".", "~", "/")) or model.count("/") > 1:
        return f"MODEL {model}: there is no such folder"
    nearest = difflib.get_close_matches(model, BUILT_IN, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return (
        f"MODEL {model or '(empty)'} is neither a folder, nor a hub id (org/name), "
        f"nor the built-in {', '.join(BUILT_IN)}{hint}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the answer is its exit status."""
    parser = argparse.ArgumentParser(description="Make a model ready for the engine.")
    parser.add_argument("--model", required=True, help="folder, hub id or built-in name")
    parser.add_argument("--cache", required=True, type=Path, help="folder for converted models")
    options = parser.parse_args(arguments)
    # As an exception, so that a download in progress is stopped and half-made files are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        prepared = prepare(options.model, options.cache.expanduser().absolute())
    except ModelUnavailable as error:
        print(" ".join(str(error).splitlines()), file=sys.stderr)
        return EXIT_UNAVAILABLE
    except KeyboardInterrupt:
        return 130
    print(
        json.dumps({"path": str(prepared.path), "served_model_name": prepared.served_model_name}),
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
