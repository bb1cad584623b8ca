"""Heads of requests from ASGI scopes: the path of the mount, the path below it, and what is not believed."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.web.asgi.scope import BadScope, head_of, split_path
from windlass.web.listener.bounds import Bounds


def make_scope(path: str, root: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": path, "root_path": root, "headers": [], **more}


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        (make_scope("/"), ("", "/")),
        (make_scope("/queues", raw_path=b"/queues"), ("", "/queues")),
        (make_scope("/jobs", "/jobs", raw_path=b"/jobs"), ("/jobs", "/")),
        (make_scope("/jobs/", "/jobs", raw_path=b"/jobs/"), ("/jobs", "/")),
        (make_scope("/jobs/queues/a/b", "/jobs", raw_path=b"/jobs/queues/a%2Fb"), ("/jobs", "/queues/a%2Fb")),
        (make_scope("/jobs/queues/a b", "/jobs"), ("/jobs", "/queues/a%20b")),  # a server without raw_path
        # Below its own name: only one level belongs to the mount.
        (make_scope("/jobs/jobs", "/jobs", raw_path=b"/jobs/jobs"), ("/jobs", "/jobs")),
        # A framework that takes the mount off `path`.
        (make_scope("/queues", "/jobs", raw_path=b"/jobs/queues"), ("/jobs", "/queues")),
        (make_scope("/jobs/7", "/jobs", raw_path=b"/jobs/jobs/7"), ("/jobs", "/jobs/7")),
        # A middleware that rewrites `path` alone.
        (make_scope("/jobs/x y", "/jobs", raw_path=b"/elsewhere"), ("/jobs", "/x%20y")),
        # A proxy that takes off its prefix, which the host knows as the root path of the server.
        (make_scope("/jobs/x", "/ops/jobs", app_root_path="/ops", raw_path=b"/jobs/x"), ("/ops/jobs", "/x")),
        (make_scope("/ops/jobs/x", "/ops/jobs", app_root_path="/ops", raw_path=b"/ops/jobs/x"), ("/ops/jobs", "/x")),
        # A mount that is encoded by the client.
        (make_scope("/jobs/x", "/jobs", raw_path=b"/%6Aobs/x"), ("/jobs", "/x")),
        (make_scope("/käse/x", "/käse", raw_path=b"/k%C3%A4se/x"), ("/k%C3%A4se", "/x")),
        # Escapes from the mount: no route has such a path.
        (make_scope("/jobs/../admin", "/jobs", raw_path=b"/jobs/../admin"), ("/jobs", "/../admin")),
        (make_scope("/jobs/../admin", "/jobs", raw_path=b"/jobs/%2E%2E/admin"), ("/jobs", "/%2E%2E/admin")),
        (make_scope("/jobs/x", "/jobs", raw_path=b"/jobs%2Fx"), ("/jobs", "%2Fx")),
        (make_scope("/jobsite", "/jobs", raw_path=b"/jobsite"), ("/jobs", "/jobsite")),
        # A mount with parameters is text of the client: no other host, and no end of a cookie's path.
        (make_scope("//evil.example/x", "//evil.example", raw_path=b"//evil.example/x"), ("/evil.example", "/x")),
        (make_scope("/a;Domain=b\r\n/x", "/a;Domain=b\r\n"), ("/a%3BDomain=b%0D%0A", "/x")),
        (make_scope("/%zz/x", "/%zz", raw_path=b"/%zz/x"), ("/%25zz", "/x")),
    ],
)
def test_splits_the_path_at_the_mount(scope: dict[str, Any], wanted: tuple[str, str]) -> None:
    assert split_path(scope) == wanted


SEGMENTS = st.lists(st.text(min_size=1).filter(lambda text: text not in (".", "..")), min_size=1, max_size=3)


@given(mount=SEGMENTS, below=SEGMENTS, has_raw_path=st.booleans())
def test_any_path_is_found_below_any_mount(mount: list[str], below: list[str], has_raw_path: bool) -> None:
    """Segments keep their slashes if the server has passed on the path as it was sent."""
    sent = "".join(f"/{quote(segment, safe='', errors='replace')}" for segment in (*mount, *below))
    path = unquote(sent)
    root = unquote("".join(f"/{quote(segment, safe='', errors='replace')}" for segment in mount))
    more = {"raw_path": sent.encode()} if has_raw_path else {}
    base, rest = split_path(make_scope(path, root.rstrip("/"), **more))
    assert unquote(base).strip("/") == root.strip("/")
    assert unquote(rest) == (path[len(root.rstrip("/")) :] or "/")
    assert base == "" or base[1:2] not in ("/", "")
    assert not set(base) & set(';,\r\n"<>\\ ') - {","}


def test_the_scheme_is_that_of_the_server_and_not_of_a_header() -> None:
    forged = [(b"x-forwarded-proto", b"https"), (b"X-Forwarded-Proto", b"https")]
    head = head_of(make_scope("/", headers=forged, scheme="http"), Bounds())
    assert head.headers["x-forwarded-proto"] == "http"
    assert head_of(make_scope("/", scheme="https"), Bounds()).headers["x-forwarded-proto"] == "https"


def test_repeated_headers_are_joined() -> None:
    """HTTP/2 sends each cookie in a field of its own."""
    fields = [(b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"accept", b" text/html\t")]
    head = head_of(make_scope("/", headers=fields, client=("192.0.2.1", 7)), Bounds())
    assert (head.headers["cookie"], head.headers["accept"], head.peer) == ("a=1, b=2", "text/html", "192.0.2.1")


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        (make_scope("/" + "a" * 9000), 414),
        (make_scope("/", query_string=b"a" * 9000), 414),
        (make_scope("/", headers=[(b"x", b"y" * 40_000)]), 431),
        (make_scope("/", headers=[(b"x-%d" % number, b"") for number in range(101)]), 431),
        (make_scope("/", headers=[(b"host", b"a"), (b"host", b"b")]), 400),
    ],
    ids=["path", "query", "header bytes", "headers", "two hosts"],
)
def test_the_bounds_of_the_listener_hold(scope: dict[str, Any], status: int) -> None:
    with pytest.raises(BadScope) as refused:
        head_of(scope, Bounds())
    assert refused.value.status == status
