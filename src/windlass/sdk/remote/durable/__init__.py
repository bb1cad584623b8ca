"""Durable operations over HTTP."""
