"""windlass tokens: who may ask a server, and for what (docs/access.md)."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.connection import connected
from windlass.cli.output import At, Column, json_line, json_option, note, say, table
from windlass.cli.parameters import DURATION
from windlass.cli.records import record
from windlass.core.access.tokens import NewToken, Role, Token
from windlass.core.validation.tokens import TOKEN_RATE_MAX
from windlass.service import Service

COLUMNS = (
    Column("token", shrinks=12),
    Column("roles"),
    Column("queues", rank=1, shrinks=12),
    Column("rate", is_right=True, rank=3),
    Column("created", rank=2),
    Column("expires"),
    Column("id", rank=5),
    Column("note", rank=4, shrinks=10),
)
token_argument = click.argument("name", metavar="NAME")


@click.group()
def tokens() -> None:
    """Create and revoke the tokens that a server asks for."""


@tokens.command()
@token_argument
@click.option(
    "--role", "roles", type=click.Choice([role.value for role in Role]), multiple=True, required=True,
    help="What its bearer may do; may be repeated.",
)  # fmt: skip
@click.option(
    "--queue", "queues", multiple=True, metavar="PATTERN",
    help="Only in queues that match, e.g. mail or 'video-*'; may be repeated. Default: all.",
)  # fmt: skip
@click.option(
    "--rate", type=click.IntRange(0, TOKEN_RATE_MAX), default=0, metavar="N",
    help="At most so many requests per second. Default: no bound.",
)  # fmt: skip
@click.option("--expires", type=DURATION, default=0, help="Refused from then on, e.g. 30d. Default: never.")
@click.option("--note", "remark", default="", help="Shown with the token.")
@connected
def create(
    service: Service,
    name: str,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    rate: int,
    expires: int,
    remark: str,
) -> None:
    """Create a token called NAME and print it, this once.

    Only its hash is kept: one that is lost is revoked and replaced. The token alone goes to stdout.

    \b
    Example:
      windlass tokens create shop --role produce --queue 'mail-*' --rate 100 --expires 90d
      windlass tokens create operator --role admin
    """
    held = frozenset(Role(role) for role in roles)
    new = NewToken(name=name, roles=held, queues=queues, rate=rate, expires_in_ms=expires, note=remark)
    made = service.create_token(new).wait()
    note(f"Token {name} is created. Keep it safe: it is not shown again.")
    click.echo(made.text)
    note("Send it as `Authorization: Bearer …`, or set WINDLASS_TOKEN to it where clients run.")


@tokens.command("ls")
@json_option
@connected
def ls(service: Service, as_json: bool) -> None:
    """List tokens; what they are proven by is not shown.

    With --json, one object per line.

    \b
    Example:
      windlass tokens ls
    """
    found = service.tokens().wait()
    if as_json:
        for token in found.tokens:
            json_line(_as_record(token))
    else:
        empty = "No tokens: a server on loopback lets everybody in, on other addresses it does not start."
        table(COLUMNS, (_row(token, found.now_ms) for token in found.tokens), empty=empty)


def _row(token: Token, now_ms: int) -> tuple[object, ...]:
    expires = "expired" if token.is_expired(now_ms) else At(token.expires_at_ms or None, now_ms)
    rate = f"{token.rate}/s" if token.rate else ""
    roles, queues = ",".join(sorted(token.roles)), ",".join(token.queues)
    return token.name, roles, queues, rate, At(token.created_at_ms, now_ms), expires, token.id, token.note


def _as_record(token: Token) -> dict[str, Any]:
    fields = {field: getattr(token, field) for field in token.__struct_fields__ if field != "digest"}
    return {field: record(value) for field, value in fields.items()} | {"roles": sorted(token.roles)}


@tokens.command()
@token_argument
@connected
def rm(service: Service, name: str) -> None:
    """Revoke a token: servers refuse it within a second.

    \b
    Example:
      windlass tokens rm shop
    """
    service.revoke_token(name).wait()
    say(f"Token {name} is revoked.")
