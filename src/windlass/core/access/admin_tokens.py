"""Rule that a deployment with tokens keeps an admin token, so that its operators are not locked out."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.errors import LastAdminToken

from .tokens import NewToken, Role, Token, Tokens


def admin_tokens(known: Tokens) -> list[Token]:
    """Return the admin tokens that have not expired."""
    return [token for token in known.tokens if Role.ADMIN in token.roles and not token.is_expired(known.now_ms)]


def lasting_until_ms(tokens: Iterable[Token]) -> int:
    """Return when the last of these tokens expires; 0 if one of them never does, or if there are none."""
    expiries = [token.expires_at_ms for token in tokens]
    return 0 if 0 in expiries else max(expiries, default=0)


def check_first_token(known: Tokens, new: NewToken) -> None:
    """Refuse a first token without the role admin: from then on every request needs a token."""
    if not known.tokens and Role.ADMIN not in new.roles:
        raise LastAdminToken(
            f"The token {new.name!r} would be the only one, and it is no admin token: from then on every request needs "
            "a token, and none could administer this deployment. Create an admin token first, or force it "
            "(--force) if your servers have one of their own (WINDLASS_TOKEN)."
        )


def check_last_admin(known: Tokens, name: str) -> None:
    """Refuse to remove the last admin token that is valid."""
    admins = admin_tokens(known)
    if [token.name for token in admins] == [name]:
        raise LastAdminToken(
            f"{name!r} is the last admin token: without it no token could administer this deployment. Create "
            "another admin token first, or force it (--force) if your servers have one of their own (WINDLASS_TOKEN)."
        )
