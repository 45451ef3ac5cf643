"""The chat server as an MLflow model, and the tooling to log, validate, deploy and query it."""
