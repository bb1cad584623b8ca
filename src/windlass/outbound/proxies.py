"""Proxy of a request. The environment variables are the usual ones (`http_proxy`, `https_proxy`, `all_proxy`,
`no_proxy`); requests to this host never use the environment's proxy."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from yarl import URL

from windlass.core.errors import BadInput

from .urls import basic_auth, parse_http_url, split_credentials


class Proxy(NamedTuple):
    url: URL
    authorization: str  # empty: no authorization


def parse_proxy(text: str) -> Proxy:
    """Parse the URL of a proxy: `http://` or `https://`, optionally with a user and a password. Raise BadInput if it is
    invalid."""
    address, credentials = split_credentials(text)
    url = parse_http_url(address)
    if url.path not in ("", "/") or url.query_string:
        raise BadInput("The URL of a proxy must have a scheme, a host and a port, and no path.")
    return Proxy(url, basic_auth(*credentials) if credentials else "")


def environment_proxy(url: URL) -> str:
    """Return the proxy that the environment names for a URL; empty if there is none."""
    host = url.raw_host or ""
    if _is_loopback(host):
        return ""
    proxies = getproxies_environment()
    if proxy_bypass_environment(f"{host}:{url.port}", proxies):
        return ""
    found = proxies.get(url.scheme) or proxies.get("all") or ""
    return found if not found or "://" in found else f"http://{found}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
