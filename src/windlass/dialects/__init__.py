"""Dialects: protocols of clients. Each parses requests, calls the service, and formats the answers."""
