"""``python -m contract.log_again FOLDER``: log the model anew from its own files.

Its weights are left out, for there may be many gigabytes of them.
"""

import json
import sys
import tempfile
from pathlib import Path

import mlflow

from .subject import Subject

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    subject = Subject(folder, Path())
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch, "weights")
        weights.mkdir()
        mlflow.pyfunc.save_model(
            path=str(Path(scratch, "model")),
            python_model=str(folder / Path(subject.flavor["model_code_path"]).name),
            code_paths=[str(path) for path in sorted(subject.code.iterdir())],
            artifacts={name: str(weights) for name in subject.flavor.get("artifacts") or {}}
            or None,
            model_config=subject.config,
            input_example=json.loads((folder / "input_example.json").read_text("utf-8")),
            pip_requirements=["mlflow"],
        )
