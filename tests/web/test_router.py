"""Tests of the router: lookup by path, decoded parameters, methods."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadInput
from windlass.web.app.problems import MethodNotAllowed, NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import Router, Routes
from windlass.wire.problems import headers_of, problem_of

routes = Routes("/api", tag="Things")


@routes.get("/things", roles=None)
async def things(context: RequestContext[Any, Any]) -> None:
    """Things."""


@routes.post("/things", roles=None)
async def add(context: RequestContext[Any, Any]) -> None:
    """Add one."""


@routes.post("/things:many", roles=None)
async def add_many(context: RequestContext[Any, Any]) -> None:
    """Add many.

    And a longer
    description."""


@routes.put("/things/{name}", roles=None)
async def put(context: RequestContext[Any, Any]) -> None:
    """Put it."""


@routes.get("/things/{name}/parts/{part}", roles=None)
async def part(context: RequestContext[Any, Any]) -> None:
    """A part of it."""


@routes.get("/things/{name}/size", roles=None)
async def size(context: RequestContext[Any, Any]) -> None:
    """Its size."""


ROUTER = Router([routes])


@pytest.mark.parametrize(
    ("method", "path", "operation", "names"),
    [
        ("GET", "/api/things", "things", {}),
        ("HEAD", "/api/things", "things", {}),
        ("POST", "/api/things", "add", {}),
        ("POST", "/api/things:many", "add_many", {}),
        ("POST", "/api/things%3Amany", "add_many", {}),
        ("PUT", "/api/things/a", "put", {"name": "a"}),
        ("PUT", "/api/things/a%2Fb%20c%25", "put", {"name": "a/b c%"}),
        ("PUT", "/api/things/a+b", "put", {"name": "a+b"}),
        ("GET", "/api/things/a%2Fparts/parts/%C3%BC", "part", {"name": "a/parts", "part": "ü"}),
        ("GET", "/api/things/size/size", "size", {"name": "size"}),
    ],
)
def test_a_route_is_found(method: str, path: str, operation: str, names: dict[str, str]) -> None:
    route, found = ROUTER.find(method, path)
    assert (route.operation, found) == (operation, names)


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_may_hold_any_character(name: str, part: str) -> None:
    route, names = ROUTER.find("GET", f"/api/things/{quote(name, safe='')}/parts/{quote(part, safe='')}")
    assert route.operation == "part"
    assert names == {"name": name, "part": part}


@pytest.mark.parametrize(
    "path", ["", "/", "/api", "/api/things/", "/api/things//size", "/api/thing", "/API/things", "//api/things", "*"]
)
def test_unknown_paths_are_not_found(path: str) -> None:
    with pytest.raises(NotFound) as refused:
        ROUTER.find("GET", path)
    assert problem_of(refused.value).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/things", "GET, HEAD, POST"),
        ("GET", "/api/things:many", "POST"),
        ("HEAD", "/api/things:many", "POST"),
        ("POST", "/api/things/a", "PUT"),
        ("get", "/api/things", "GET, HEAD, POST"),
    ],
)
def test_an_unsupported_method_is_answered_with_the_allowed_ones(method: str, path: str, allowed: str) -> None:
    with pytest.raises(MethodNotAllowed, match=allowed) as refused:
        ROUTER.find(method, path)
    assert problem_of(refused.value).status == 405
    assert headers_of(refused.value) == (("Allow", allowed),)


def test_a_parameter_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadInput, match="%FF"):
        ROUTER.find("PUT", "/api/things/%FF")


def test_a_route_is_declared_once() -> None:
    with pytest.raises(ValueError, match="POST /api/things is declared twice"):
        Router([routes, routes_again()])


def routes_again() -> Routes:
    again = Routes("/api")
    again.post("/things", roles=None)(add)
    return again


def test_the_docstring_is_summary_and_description() -> None:
    [route] = [route for route in ROUTER.routes if route.operation == "add_many"]
    assert (route.summary, route.description) == ("Add many", "And a longer description.")
    assert [route.names for route in ROUTER.routes if route.operation == "part"] == [["name", "part"]]
