"""Limits on how many matching jobs run at once or start per period."""
