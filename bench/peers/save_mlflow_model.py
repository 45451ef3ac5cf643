"""Saves mlflow_model.py as an MLflow model: ``save_mlflow_model.py FOLDER``."""

import shutil
import sys
from pathlib import Path

import mlflow


def main() -> None:
    """Save it, in the place of an older one."""
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    mlflow.pyfunc.save_model(
        sys.argv[1],
        python_model=str(Path(__file__).with_name("mlflow_model.py")),
        pip_requirements=["mlflow", "openai"],  # named, so that MLflow doesn't run it to find out
        input_example=None,
    )


if __name__ == "__main__":
    main()
