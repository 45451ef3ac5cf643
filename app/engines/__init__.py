"""Engines: what generates the tokens, how it is started and how it is spoken to."""
