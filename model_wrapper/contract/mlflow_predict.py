"""``python -m contract.mlflow_predict FOLDER REQUEST ENV_MANAGER``."""

import json
import sys

import mlflow

if __name__ == "__main__":
    mlflow.models.predict(sys.argv[1], json.loads(sys.argv[2]), env_manager=sys.argv[3])
