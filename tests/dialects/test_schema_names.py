"""Schemas of the OpenAPI document drop the word Shape: two of them must not become one by that."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.server.server import ROUTES
from windlass.web.app.router import Router
from windlass.web.docs.openapi import _shorten_schema_names, _types, build_document


def test_no_two_schemas_become_one() -> None:
    routes = Router(ROUTES).routes
    _, components = msgspec.json.schema_components(_types([route for route in routes if route.is_listed]))
    written: dict[str, Any] = {"components": {"schemas": components}}
    assert len(_shorten_schema_names(written)["components"]["schemas"]) == len(components)
    named = build_document(routes)["components"]["schemas"]
    assert "NewJob" in named
    assert "NewJobShape" not in named
