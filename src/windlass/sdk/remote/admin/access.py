"""Token and audit log operations over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.access.audit import AuditEntry, AuditPage
from windlass.core.access.tokens import CreatedToken, NewToken, Token, Tokens
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import ApiRequest, RequestFlow, get, post, quote_segment
from windlass.sdk.remote.store import not_offered
from windlass.sdk.remote.translation import copy_fields
from windlass.store.operation import Operation
from windlass.wire.admin import (
    AuditPageShape,
    CreatedTokenShape,
    InfoShape,
    NewTokenShape,
    TokenShape,
    TokensShape,
)


class RemoteAccessOperations(RemoteFacet):
    def create_token(self, new: NewToken, *, needs_admin: bool = False) -> Operation[CreatedToken]:
        """Create a token. After a lost answer it is not repeated: its text is lost, so revoke it and create another."""
        super().create_token(new, needs_admin=needs_admin)
        fields = {name: getattr(new, name) for name in NewToken.__struct_fields__}
        body = NewTokenShape(force=not needs_admin, **fields)
        request = post("/tokens", CreatedTokenShape, body, is_repeatable=False)
        return self._single(request, lambda reply: CreatedToken(_token(reply.token), reply.text))

    def revoke_token(self, name: str, *, needs_admin: bool = False) -> Operation[None]:
        super().revoke_token(name, needs_admin=needs_admin)
        request = ApiRequest(
            method="DELETE",
            path=f"/tokens/{quote_segment(name)}",
            response_type=None,
            query={"force": not needs_admin or None},
        )
        return self._single(request, lambda _nothing: None)

    def tokens(self, known: Tokens | None = None) -> Operation[Tokens]:
        """Return all tokens, without their digests: a server does not send them."""
        super().tokens(known)
        return Operation(self.remote, _read_tokens)

    def audit(self, entries: Sequence[AuditEntry]) -> Operation[None]:
        raise not_offered("writing to the audit log")

    def audits(self, *, most: int = 50, cursor: str = "") -> Operation[AuditPage]:
        super().audits(most=most, cursor=cursor)
        request = get("/audit", AuditPageShape, query={"most": most, "cursor": cursor or None})
        return self._single(
            request,
            lambda page: AuditPage([copy_fields(entry, AuditEntry) for entry in page.entries], page.cursor),
        )


def _read_tokens() -> RequestFlow[Tokens]:
    listed = yield get("/tokens", TokensShape)
    info = yield get("/info", InfoShape)
    return Tokens(version=0, now_ms=info.now_ms, tokens=[_token(shape) for shape in listed.tokens])


def _token(shape: TokenShape) -> Token:
    return Token(
        id=shape.id,
        name=shape.name,
        roles=frozenset(shape.roles),
        queues=shape.queues,
        rate=shape.rate,
        digest=b"",
        created_at_ms=shape.created_at_ms,
        expires_at_ms=shape.expires_at_ms or 0,
        note=shape.note,
    )
