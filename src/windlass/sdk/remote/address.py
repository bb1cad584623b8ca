"""Server addresses: URLs such as http://host:8080 or https://host/prefix?ssl_ca_certs=/etc/ca.pem."""

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
    prefix: str = ""  # of all paths, if a proxy serves Windlass below a path
    ca_file: str = ""  # empty: the certificate authorities of the operating system

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.prefix}"

    def ssl_context(self) -> ssl.SSLContext | None:
        if not self.is_tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:
            raise BadSetting(f"Cannot load the certificates in {self.ca_file}: {error}.") from error


def parse_server_url(url: str) -> ServerAddress:
    parts = _split(url)
    if parts.username is not None or parts.password is not None:
        _refuse("it has a user or password; a server needs a token: Windlass(url, token=…) or WINDLASS_TOKEN")
    if not parts.hostname:
        _refuse("it has no host")
    options = parse_qs(parts.query, keep_blank_values=True)
    is_tls = parts.scheme == "https"
    if parts.fragment or set(options) - ({_CA_FILE} if is_tls else set()):
        _refuse(f"the only option is {_CA_FILE}, for https://, and a '#' is not allowed")
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
    """Raise BadSetting without the URL itself, as it may contain a secret."""
    raise BadSetting(f"The URL of the server is invalid: {why}. Example: {EXAMPLE_URL}.")
