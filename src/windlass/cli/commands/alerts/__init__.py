"""Commands of alert rules."""
