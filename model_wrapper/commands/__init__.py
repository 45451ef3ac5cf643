"""The commands of ``python -m model_wrapper``. Each module adds its own with ``register``."""
