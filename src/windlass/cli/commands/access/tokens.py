"""windlass tokens: create, list and revoke access tokens (docs/access.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import with_service
from windlass.cli.output import Column, InstantCell, json_option, print_json_line, print_note, print_table, print_text
from windlass.cli.parameters import DURATION
from windlass.cli.records import to_record
from windlass.core.access.admin_tokens import admin_tokens, lasting_until_ms
from windlass.core.access.tokens import NewToken, Role, Token, Tokens
from windlass.core.text import humanize
from windlass.core.text.control_characters import printable
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
    """Create, list and revoke access tokens."""


@tokens.command()
@token_argument
@click.option(
    "--role", "roles", type=click.Choice([role.value for role in Role]), multiple=True, required=True,
    help="Role of the token; repeatable.",
)  # fmt: skip
@click.option(
    "--queue", "queues", multiple=True, metavar="PATTERN",
    help="Restrict it to matching queues, e.g. mail or 'video-*'; repeatable. Default: all.",
)  # fmt: skip
@click.option(
    "--rate", type=click.IntRange(0, TOKEN_RATE_MAX), default=0, metavar="N",
    help="Maximum of requests per second. Default: no limit.",
)  # fmt: skip
@click.option("--expires", type=DURATION, default=0, help="Time until it expires, e.g. 30d. Default: never.")
@click.option("--note", "remark", default="", help="Shown with the token.")
@click.option("--force", is_flag=True, help="Create a first token that is no admin token, too.")
@accepted_yes_option
@with_service
def create(
    service: Service,
    name: str,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    rate: int,
    expires: int,
    remark: str,
    force: bool,
) -> None:
    """Create a token named NAME and print it once.

    Only its hash is stored: revoke and replace a lost token. Only the token is written to stdout. The first token must
    be an admin token, because from then on every request to a server needs a token.

    \b
    Example:
      windlass tokens create shop --role produce --queue 'mail-*' --rate 100 --expires 90d
      windlass tokens create operator --role admin
    """
    role_set = frozenset(Role(role) for role in roles)
    new = NewToken(name=name, roles=role_set, queues=queues, rate=rate, expires_in_ms=expires, note=remark)
    before = service.tokens().wait()
    created = service.create_token(new, needs_admin=not force).wait()
    print_note(f"Token {name} is created. Keep it safe: it is not shown again.")
    click.echo(printable(created.text))
    print_note("Send it as `Authorization: Bearer …`, or set WINDLASS_TOKEN for clients.")
    print_note(_describe_grant(created.token))
    for sentence in _consequences(before, created.token):
        print_note(sentence)


def _describe_grant(token: Token) -> str:
    if Role.ADMIN in token.roles:
        return "It may do everything, in all queues."
    queues = f"the queues {', '.join(token.queues)}" if token.queues else "all queues"
    return f"It has the role{'s' if len(token.roles) > 1 else ''} {' and '.join(sorted(token.roles))} for {queues}."


def _consequences(before: Tokens, created: Token) -> Iterator[str]:
    """Yield what changes for others: the first token closes the servers, and the last admin token may expire."""
    if not before.tokens:
        yield "From now on every request to a server needs a token; the dashboard asks for one."
    if Role.ADMIN in created.roles:
        yield from _expiry_warning(msgspec.structs.replace(before, tokens=[*before.tokens, created]))


def _expiry_warning(tokens: Tokens) -> Iterator[str]:
    if until_ms := lasting_until_ms(admin_tokens(tokens)):
        at = humanize.humanize_instant(until_ms, tokens.now_ms)
        yield f"Warning: the last admin token expires at {at}. Create another one before that time."


@tokens.command("ls")
@json_option
@with_service
def ls(service: Service, as_json: bool) -> None:
    """List tokens without their secrets.

    With --json, one object per line.

    \b
    Example:
      windlass tokens ls
    """
    found = service.tokens().wait()
    if as_json:
        for token in found.tokens:
            print_json_line(_as_record(token))
    else:
        empty = "No tokens: a server on loopback allows every request, on other addresses it does not start."
        print_table(COLUMNS, (_row(token, found.now_ms) for token in found.tokens), empty=empty)


def _row(token: Token, now_ms: int) -> tuple[object, ...]:
    expires = "expired" if token.is_expired(now_ms) else InstantCell(token.expires_at_ms or None, now_ms)
    rate = f"{token.rate}/s" if token.rate else ""
    roles, queues = ",".join(sorted(token.roles)), ",".join(token.queues)
    return token.name, roles, queues, rate, InstantCell(token.created_at_ms, now_ms), expires, token.id, token.note


def _as_record(token: Token) -> dict[str, Any]:
    fields = {field: getattr(token, field) for field in token.__struct_fields__ if field != "digest"}
    return {field: to_record(value) for field, value in fields.items()} | {"roles": sorted(token.roles)}


@tokens.command()
@token_argument
@click.option("--force", is_flag=True, help="Also revoke the last admin token.")
@accepted_yes_option
@with_service
def rm(service: Service, name: str, force: bool) -> None:
    """Revoke a token, by its name or its id. Servers refuse it within a second.

    The last admin token is kept, unless --force is given.

    \b
    Example:
      windlass tokens rm shop
    """
    known = service.tokens().wait()
    if all(token.name != name for token in known.tokens):
        name = next((token.name for token in known.tokens if token.id == name), name)
    service.revoke_token(name, needs_admin=not force).wait()
    print_text(f"Token {name} is revoked.")
    left = [token for token in known.tokens if token.name != name]
    if len(admin_tokens(known)) > len(admin_tokens(msgspec.structs.replace(known, tokens=left))):
        for sentence in _expiry_warning(msgspec.structs.replace(known, tokens=left)):
            print_note(sentence)
