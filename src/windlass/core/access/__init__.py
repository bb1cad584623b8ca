"""Tokens, roles and the audit log.

`windlass.core.access` was a module with the names of `tokens.py`. They stay importable from here.
"""

from .tokens import CreatedToken, NewToken, Principal, Role, Token, Tokens, parse_token

__all__ = ["CreatedToken", "NewToken", "Principal", "Role", "Token", "Tokens", "parse_token"]
