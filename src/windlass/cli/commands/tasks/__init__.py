"""windlass tasks: how tasks ran, which workers know them, and how they failed."""
