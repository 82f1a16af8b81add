"""The built-in sections of the report, each a `Section` with a function from the subject to its pieces."""
