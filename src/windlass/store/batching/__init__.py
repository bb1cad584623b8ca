"""Batching of concurrent calls and their split by partition."""
