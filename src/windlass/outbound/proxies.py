"""Which proxy a request goes through. The operator's, from the environment, is as in other programs: `http_proxy`,
`https_proxy`, `all_proxy`, `no_proxy`, and never for this machine itself."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from yarl import URL

from windlass.core.errors import BadInput

from .urls import basic_auth, parse_http_url, split_credentials


class Proxy(NamedTuple):
    url: URL
    authorization: str  # empty: it asks for none


def parse_proxy(text: str) -> Proxy:
    """`http://` or `https://`, perhaps with a user and a password. BadInput: it cannot be used."""
    address, credentials = split_credentials(text)
    url = parse_http_url(address)
    if url.path not in ("", "/") or url.query_string:
        raise BadInput("A proxy is a scheme, a host and a port, without a path.")
    return Proxy(url, basic_auth(*credentials) if credentials else "")


def environment_proxy(url: URL) -> str:
    """Empty: none."""
    host = url.raw_host or ""
    if _is_this_machine(host):
        return ""
    proxies = getproxies_environment()
    if proxy_bypass_environment(f"{host}:{url.port}", proxies):
        return ""
    found = proxies.get(url.scheme) or proxies.get("all") or ""
    return found if not found or "://" in found else f"http://{found}"


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
