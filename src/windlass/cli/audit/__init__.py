"""Audit entries of commands that talk to the engine itself, without a server that writes them."""
