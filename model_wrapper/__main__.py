"""``python -m model_wrapper``."""

from model_wrapper.cli import cli

if __name__ == "__main__":
    cli(prog_name="python -m model_wrapper")
