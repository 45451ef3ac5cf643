"""One chat server for people who run their own LLMs: SGLang behind ChatAgent and OpenAI routes."""

__version__ = "0.1.0"
