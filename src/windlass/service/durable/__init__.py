"""Steps, suspensions, signals and streams of jobs."""

from .operations import DurableOperations

__all__ = ["DurableOperations"]
