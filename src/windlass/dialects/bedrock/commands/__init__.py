"""Commands, one module per group. A command reads its parameters, decides, and calls the engine once."""
