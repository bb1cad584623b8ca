"""Outbound policy of a server: the addresses in the settings, or a default that depends on whether tokens exist."""

from __future__ import annotations

from windlass.core.errors import EngineUnavailable
from windlass.outbound import Policy, PolicySource, parse_policy
from windlass.settings import Settings
from windlass.web.app.token_table import TokenTable


class LoopbackUntilTokens:
    """Allow loopback only while no token exists: until then every client is on this machine. The token table
    is at most a second old, in every process."""

    def __init__(self, tokens: TokenTable, without_tokens: Policy) -> None:
        self._tokens = tokens
        self._without_tokens = without_tokens
        self._with_tokens = Policy()

    async def current(self) -> Policy:
        try:
            await self._tokens.refresh()
        except EngineUnavailable:
            return self._with_tokens
        return self._with_tokens if self._tokens.has_tokens else self._without_tokens


def policy_of(settings: Settings, tokens: TokenTable, *, is_local: bool) -> PolicySource:
    """Return the policy of a server. The settings override the default. `is_local`: only this machine can reach the
    server."""
    policy = parse_policy(settings.allow_private_addresses, is_local=is_local)
    if settings.allow_private_addresses.strip() or not is_local:
        return policy
    return LoopbackUntilTokens(tokens, policy)
