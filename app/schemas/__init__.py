"""Request and answer schemas, and the pure functions that translate between them and the engine."""
