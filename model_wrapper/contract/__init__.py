"""What every logged model of this server must do, asked from outside.

``python -m model_wrapper validate`` copies this package out of the repository and runs it with the
model's own environment (``__main__.py``), so it needs nothing but MLflow, and its imports are
relative. It uses a model as its callers do and knows nothing of the model's code.
"""
