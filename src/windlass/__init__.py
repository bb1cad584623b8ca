"""Windlass: a job queue on Redis/Valkey that does not lose jobs."""

__version__ = "0.1.0"
