"""From this folder and a model to an MLflow model."""
