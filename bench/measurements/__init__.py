"""Measurements, one module per section of the report."""
