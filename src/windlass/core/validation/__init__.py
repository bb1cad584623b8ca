"""Validation of requests, one module per subject."""
