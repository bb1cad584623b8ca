"""Token operations. The service itself checks no tokens; front ends do."""

from __future__ import annotations

import secrets

from windlass.core.access import tokens as access
from windlass.core.access.admin_tokens import check_first_token, check_last_admin
from windlass.core.access.tokens import CreatedToken, NewToken, Tokens
from windlass.core.errors import Refusal, TokenExists, UnknownToken
from windlass.core.validation.tokens import check_new_token, check_token_name
from windlass.core.validation.values import check_boolean, check_instance, check_integer, check_text
from windlass.service.facet import Facet, send
from windlass.store.commands.admin import tokens
from windlass.store.commands.command import Flow
from windlass.store.operation import Operation

SESSION_MAX = 100  # characters of its name


class TokenOperations(Facet):
    def create_token(self, new: NewToken, *, needs_admin: bool = False) -> Operation[CreatedToken]:
        """Create a token. The answer has its text, which is not stored and cannot be shown again. `needs_admin`: refuse
        a first token without the role admin, because then none could administer the deployment."""
        check_new_token(new)
        check_boolean("needs_admin", needs_admin)
        return Operation(self.store, lambda: self._create_token_flow(new, needs_admin))

    def _create_token_flow(self, new: NewToken, needs_admin: bool) -> Flow[CreatedToken]:
        if needs_admin:
            check_first_token((yield tokens.tokens(None)), new)
        random = (secrets.token_bytes(access.ID_RANDOM_BYTES), secrets.token_bytes(access.SECRET_RANDOM_BYTES))
        secret = access.generate_secret(*random)
        made = yield tokens.create_token(new, secret)
        if isinstance(made, TokenExists):
            raise TokenExists(
                f"The token {new.name!r} exists already; choose another name, or remove that token first."
            )
        if isinstance(made, Refusal):
            raise made
        return CreatedToken(made, access.format_token(secret))

    def revoke_token(self, name: str, *, needs_admin: bool = False) -> Operation[None]:
        """Revoke a token. Servers refuse it within a second. If the answer of a first call was lost, `unknown_token`
        means that the first call succeeded. `needs_admin`: refuse to revoke the last admin token."""
        check_token_name(name)
        check_boolean("needs_admin", needs_admin)
        return Operation(self.store, lambda: self._revoke_token_flow(name, needs_admin))

    def _revoke_token_flow(self, name: str, needs_admin: bool) -> Flow[None]:
        if needs_admin:
            check_last_admin((yield tokens.tokens(None)), name)
        answer = yield tokens.revoke_token(name)
        if isinstance(answer, UnknownToken):
            raise UnknownToken(f"There is no token {name!r}.")

    def end_session(self, ended: str, until_s: int) -> Operation[None]:
        """End a browser session, or all sessions of a token, as `ended` names them. Servers refuse them within a second
        and forget them at `until_s`."""
        check_text("ended", ended, SESSION_MAX)
        check_integer("until_s", until_s, 0, 2**33)
        return Operation(self.store, lambda: self._end_session_flow(ended, until_s))

    def _end_session_flow(self, ended: str, until_s: int) -> Flow[None]:
        yield tokens.end_session(ended, until_s)

    def tokens(self, known: Tokens | None = None) -> Operation[Tokens]:
        """Return all tokens, by name. With `known`, an earlier answer, they are sent only if they changed since."""
        if known is not None:
            check_instance("known", known, Tokens)
            check_integer("known.version", known.version, 0, 2**53)
        return Operation(self.store, lambda: send(tokens.tokens(known)))
