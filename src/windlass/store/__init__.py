"""Storage of jobs in the engine. The only package that knows Redis."""
