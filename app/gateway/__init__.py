"""The HTTP side: routes, middleware and responses. Schemas, engine and errors lie outside."""
