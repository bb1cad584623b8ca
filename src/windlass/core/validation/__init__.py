"""Validation of requests, one module per subject. A check raises a refusal that names the error and a valid value."""
