"""Format of an export."""
