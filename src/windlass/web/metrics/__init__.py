"""Metrics of a server process in Prometheus format."""
