"""Address of the mail server, from its setting."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from windlass.core.errors import BadInput

Tls: TypeAlias = Literal["starttls", "tls", "none"]
_PORTS: dict[str, int] = {"smtp": 587, "smtps": 465}
_TLS: dict[str, Tls] = {"starttls": "starttls", "tls": "tls", "none": "none"}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class MailServer(NamedTuple):
    host: str
    port: int
    tls: Tls
    user: str = ""
    password: str = ""


def parse_smtp_url(text: str) -> MailServer | None:
    """Parse `smtp://user:password@host:587?tls=starttls` or `smtps://…`. None: it is empty. No message shows the URL,
    because it contains a password."""
    if not text:
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadInput("it must be like smtp://user:password@mail.example.com:587.") from error
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or parts.path.strip("/") or set(options) - {"tls"}:
        raise BadInput(
            "it must be like smtp://user:password@mail.example.com:587, or smtps://… for TLS from the start."
        )
    tls = _TLS.get("tls" if parts.scheme == "smtps" else options.get("tls", "starttls"))
    if tls is None:
        raise BadInput("tls must be starttls, tls or none.")
    if tls == "none" and parts.username and parts.hostname not in _LOOPBACK:
        raise BadInput("tls=none would send the password in clear text; leave it out.")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MailServer(parts.hostname, port or _PORTS[parts.scheme], tls, user, password)
