"""Producers and workers of each front end, one module each."""
