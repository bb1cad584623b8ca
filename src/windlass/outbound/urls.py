"""Check of URLs from outside. No I/O: the address of a name is checked when the client connects."""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from urllib.parse import unquote

from yarl import URL

from windlass.core.callbacks.urls import URL_MAX
from windlass.core.errors import BadInput

FETCHED_MAX = 16 * 1024  # characters of a URL to fetch: signed URLs are long
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)\.?$")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)$")


def parse_http_url(text: str, most: int = URL_MAX) -> URL:
    """Parse a URL. Raise BadInput if it is invalid, or if different programs would read it differently."""
    if len(text) > most or any(char <= " " or char in "\\\x7f" for char in text):
        raise BadInput(f"A URL may have {most} characters, and no blanks, backslashes or control characters.")
    try:
        url = URL(text)
        host, port = url.raw_host, url.port
    except ValueError as error:
        raise BadInput(f"This is not a valid URL: {error}.") from error
    _, mark, rest = text.partition("://")
    if url.scheme not in ("http", "https") or not mark:
        raise BadInput("A URL must begin with http:// or https://.")
    authority = rest.split("/", 1)[0].split("?", 1)[0].split("#", 1)[0]
    if "[" in authority and not authority.isascii():  # the conversion to ASCII would remove its brackets
        raise BadInput("An IPv6 address in a URL must be plain ASCII.")
    if "@" in authority:
        raise BadInput("A URL must not contain a user name or a password.")
    if url.raw_fragment:
        raise BadInput("A URL must not have a fragment (#…).")
    if not port:
        raise BadInput("The port of a URL must be between 1 and 65535.")
    _check_host(host or "")
    return url


def split_credentials(text: str) -> tuple[str, tuple[str, str] | None]:
    """Return a URL without its user and password, and these two."""
    scheme, mark, rest = text.partition("://")
    end = next((at for at, character in enumerate(rest) if character in "/?#"), len(rest))
    user_info, at_sign, host = rest[:end].rpartition("@")
    if not mark or not at_sign:
        return text, None
    user, _, password = user_info.partition(":")
    return f"{scheme}://{host}{rest[end:]}", (unquote(user), unquote(password))


def origin_of(text: str) -> str:
    """Return the scheme, host and port of a URL."""
    scheme, _, rest = split_credentials(text)[0].partition("://")
    return f"{scheme}://{re.split('[/?#]', rest, maxsplit=1)[0]}"


def basic_auth(user: str, password: str) -> str:
    """Return the value of an Authorization header."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _check_host(host: str) -> None:
    if ":" in host:
        _check_address(host)
        return
    last = host.rstrip(".").rsplit(".", 1)[-1]
    if _NUMBER.match(last):
        _check_address(host)
    elif len(host) > 253 or not all(_LABEL.match(label) for label in host.removesuffix(".").split(".")):
        raise BadInput("The host of a URL must be a name or an address.")


def _check_address(host: str) -> None:
    """Refuse unusual notations: 127.1, 0177.0.0.1, 2130706433 and 0x7f000001 are addresses to some programs and names
    to others."""
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise BadInput("An address in a URL must be four decimal numbers, or IPv6 in brackets.") from error
