"""Measures the server in front of a real SGLang on a GPU: ``tests/gpu/run.sh``."""
