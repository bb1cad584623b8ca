"""Token commands (create, revoke, read), their stored form (lua/lib/tokens.lua), ended sessions, and the
key of signed links."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from windlass.core.access.tokens import NewToken, Role, Token, TokenCredentials, Tokens, digest_of
from windlass.core.errors import Refusal, TooLarge
from windlass.store.commands.command import Argument, Command, parse_reply, reply_parser

TOKENS_MAX = 1_000  # servers keep all of them in memory
HOME = 0  # the partition that holds them
_STAMPS = struct.Struct(">HIHI")  # created and expires, each in two halves


class _Definition(msgspec.Struct, frozen=True, array_like=True):
    """Stored fields of a token, besides its name and its instants. Fields may be added at the end."""

    id: str
    digest: bytes
    roles: frozenset[Role]
    queues: tuple[str, ...]
    rate: int
    note: str


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(_Definition).decode


def create_token(new: NewToken, shown: TokenCredentials) -> Command[Token | Refusal]:
    kept = _Definition(shown.id, digest_of(shown.secret), new.roles, new.queues, new.rate, new.note)

    def read(stamps: Any) -> Token:
        return _token(new.name, kept, *stamps)

    def read_or_refuse(reply: Any) -> Token | Refusal:
        if reply == TooLarge.code.encode():
            return TooLarge(f"There are {TOKENS_MAX:,} tokens already; remove unused tokens.")
        return parse_reply(reply, read)

    args: list[Argument] = [new.name, _encode(kept), new.expires_in_ms, TOKENS_MAX]
    return Command("create_token", args, read_or_refuse, partition=HOME)


def revoke_token(name: str) -> Command[int | Refusal]:
    return Command("revoke_token", [name], reply_parser(int), partition=HOME)


def tokens(known: Tokens | None) -> Command[Tokens]:
    """Read all tokens. If `known` is given, the engine sends them only if they have changed."""

    def read(reply: Any) -> Tokens:
        version, now_ms, *changed = reply
        if known is not None and not changed:
            return Tokens(version, now_ms, known.tokens, known.ended_sessions)
        tokens, ended = changed
        return Tokens(version, now_ms, _read_tokens(tokens), _read_ended(ended))

    return Command("tokens", [-1 if known is None else known.version], read, partition=HOME)


def end_session(ended: str, until_s: int) -> Command[int]:
    return Command("end_session", [ended, until_s], int, partition=HOME)


def signing_key(new_key: bytes) -> Command[bytes]:
    """Return the key of signed links. The first call stores the new key."""
    return Command("signing_key", [new_key], bytes, partition=HOME)


def _read_ended(flat: list[bytes]) -> dict[str, int]:
    return {flat[at].decode(): int(flat[at + 1]) for at in range(0, len(flat), 2)}


def _read_tokens(flat: list[bytes]) -> list[Token]:
    found = [_read_token(flat[at].decode(), flat[at + 1]) for at in range(0, len(flat), 2)]
    return sorted((token for token in found if token is not None), key=lambda token: token.name)


def _read_token(name: str, stored: bytes) -> Token | None:
    """Read a token. None: a later version wrote it; it grants no access here, and must not hide other tokens."""
    try:
        created_high, created, expires_high, expires = _STAMPS.unpack_from(stored)
        kept = _decode(stored[_STAMPS.size :])
    except (struct.error, msgspec.MsgspecError):
        return None
    return _token(name, kept, created_high << 32 | created, expires_high << 32 | expires)


def _token(name: str, kept: _Definition, created_at_ms: int, expires_at_ms: int) -> Token:
    return Token(
        id=kept.id,
        name=name,
        roles=kept.roles,
        queues=kept.queues,
        rate=kept.rate,
        digest=kept.digest,
        created_at_ms=created_at_ms,
        expires_at_ms=expires_at_ms,
        note=kept.note,
    )
