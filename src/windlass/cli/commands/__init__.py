"""Commands of the `windlass` command line, one module per command group."""
