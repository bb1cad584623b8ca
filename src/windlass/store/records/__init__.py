"""Stored form of a job: packed record, leased record, snapshot."""
