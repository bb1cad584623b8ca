"""Connections to engine nodes: protocol, retries, pool and endpoints."""
