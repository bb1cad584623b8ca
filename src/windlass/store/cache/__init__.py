"""Caches of one process: limits, history and expensive reads."""
