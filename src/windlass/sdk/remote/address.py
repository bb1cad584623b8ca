"""Where a server listens, and how a URL says it: http://host:8080, https://host/prefix?ssl_ca_certs=/etc/ca.pem."""

from __future__ import annotations

import ssl
from typing import NoReturn
from urllib.parse import SplitResult, parse_qs, urlsplit

import msgspec

from windlass.core.errors import BadSetting

EXAMPLE_URL = "http://localhost:8080"
_PORTS = {"http": 80, "https": 443}
_CA_FILE = "ssl_ca_certs"


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int
    is_tls: bool = False
    prefix: str = ""  # of all paths, where a proxy puts us under one
    ca_file: str = ""  # empty: the authorities that the operating system trusts

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.prefix}"

    def ssl_context(self) -> ssl.SSLContext | None:
        if not self.is_tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:
            raise BadSetting(f"The certificates in {self.ca_file} cannot be used: {error}.") from error


def parse_server(url: str) -> ServerAddress:
    parts = _split(url)
    if parts.username is not None or parts.password is not None:
        _refuse("it holds a user or password; a server wants a token: Windlass(url, token=…) or WINDLASS_TOKEN")
    if not parts.hostname:
        _refuse("it names no host")
    options = parse_qs(parts.query, keep_blank_values=True)
    is_tls = parts.scheme == "https"
    if parts.fragment or set(options) - ({_CA_FILE} if is_tls else set()):
        _refuse(f"only https:// has an option, {_CA_FILE}, and neither has a '#'")
    return ServerAddress(
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        is_tls=is_tls,
        prefix=parts.path.rstrip("/"),
        ca_file=options.get(_CA_FILE, [""])[0],
    )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError as error:
        _refuse(str(error))
    return parts


def _refuse(why: str) -> NoReturn:
    """Without the URL itself: it may hold a secret."""
    raise BadSetting(f"The URL of the server cannot be used: {why}. It looks like {EXAMPLE_URL}.")
