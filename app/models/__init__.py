"""Getting a model ready for the engine. Runs in the engine's environment, see `prepare`."""
