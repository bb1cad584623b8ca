"""Schemas of the OpenAPI document drop the word Shape: two of them must not become one by that."""

from __future__ import annotations

import msgspec

from windlass.server.answering import ROUTES
from windlass.web.openapi import _types, document
from windlass.web.routing import Router


def test_no_two_schemas_become_one() -> None:
    routes = Router(ROUTES).routes
    _, components = msgspec.json.schema_components(_types([route for route in routes if route.is_listed]))
    named = document(routes)["components"]["schemas"]
    assert len(named) == len(components)
    assert "NewJob" in named
    assert "NewJobShape" not in named
