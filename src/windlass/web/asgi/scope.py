"""Head of a request from an ASGI scope. No I/O.

The specification of ASGI: a server below a path gives that path as `root_path`, and `path` begins with it. Some older
frameworks take it off `path` already. Both are accepted."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from windlass.core.access.tokens import Principal
from windlass.web.listener.bounds import Bounds
from windlass.web.listener.messages import Head

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_UNQUOTED = "/!$&()*+,=:@~"  # as browsers send them; a semicolon or a control character would end the path of a cookie
_SCHEME_HEADER = "x-forwarded-proto"
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


class BadScope(Exception):
    """Request beyond the bounds, with the status and text of its answer."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class MountedHead(Head, gc=True, kw_only=True):
    """Head of a request to a mounted application, with the scope that it comes from."""

    scope: Scope
    principal: Principal | None = None  # as the host identified the client; None: not admitted


def head_of(scope: Scope, bounds: Bounds) -> MountedHead:
    """Return the head of a request. Raise BadScope if it exceeds the bounds."""
    query = scope.get("query_string", b"").decode("latin-1")
    base, path = split_path(scope)
    if len(base) + len(path) + len(query) > bounds.line_bytes_max:
        raise BadScope(414, f"The path and query of a request may have {bounds.line_bytes_max} bytes.")
    return MountedHead(
        method=scope["method"].upper(),
        path=path,
        query=query,
        headers=_headers(scope, bounds),
        peer=peer_of(scope),
        base=base,
        scope=scope,
    )


def peer_of(scope: Scope) -> str:
    """Return the address of the client; empty if the server does not know it."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _headers(scope: Scope, bounds: Bounds) -> dict[str, str]:
    headers: dict[str, str] = {}
    fields = scope["headers"]
    size = 0
    for name, value in fields:
        size += len(name) + len(value)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        if key == "host" and key in headers:
            raise BadScope(400, "A request must have one Host header, not several.")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    if size > bounds.header_bytes_max:
        raise BadScope(431, f"The headers of a request may have {bounds.header_bytes_max} bytes in all.")
    if len(fields) > bounds.headers_max:
        raise BadScope(431, f"A request may have {bounds.headers_max} header fields.")
    # The host's server decides which proxies it believes, and sets the scheme. Nothing else says what it is.
    headers[_SCHEME_HEADER] = scope.get("scheme", "http")
    return headers


def split_path(scope: Scope) -> tuple[str, str]:
    """Return the path of the mount and the path below it, both percent-encoded."""
    root, path = (scope.get("root_path") or "").rstrip("/"), scope["path"]
    base = quote(root.strip("/"), safe=_UNQUOTED)
    return f"/{base}" if base else "", _path_below(scope, root, path) or "/"


def _path_below(scope: Scope, root: str, path: str) -> str:
    raw = (scope.get("raw_path") or b"").partition(b"?")[0].decode("latin-1")
    sent = unquote(raw)
    if root and sent == root + path:
        prefix, path = root, sent  # the framework has taken the mount off `path`
    else:
        prefix = _prefix_of(scope, root, path)
    # Some frameworks change `path` alone: then it counts, and not the path that the client sent.
    found = _after_prefix(raw, prefix) if sent == path else None
    return quote(path[len(prefix) :], safe=_UNQUOTED) if found is None else found


def _prefix_of(scope: Scope, root: str, path: str) -> str:
    """Return the part of `path` that belongs to the mount. Starlette tells which part of `root_path` is the server's: a
    proxy may have taken that off, but not the rest."""
    mount = root.removeprefix((scope.get("app_root_path") or "").rstrip("/"))
    return next((start for start in (root, mount) if start and _is_below(path, start)), "")


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _after_prefix(raw: str, prefix: str) -> str | None:
    """Return the part of a percent-encoded path after a decoded prefix. None if the prefix is encoded in a way that
    does not show its end."""
    at = 0
    for wanted in prefix.encode():
        if at >= len(raw):  # bytes that are no UTF-8 were sent without escapes
            return None
        is_quoted = raw[at] == "%" and bool(_ESCAPE.match(raw, at))
        found = int(raw[at + 1 : at + 3], 16) if is_quoted else ord(raw[at])
        if found != wanted:
            return None
        at += 3 if is_quoted else 1
    return raw[at:]
