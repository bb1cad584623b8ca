"""Tokens, roles and the audit log."""
