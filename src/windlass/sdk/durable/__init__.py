"""Durable calls of running jobs: steps, sleeps, signals, child jobs and iterations that survive the end of a run."""
