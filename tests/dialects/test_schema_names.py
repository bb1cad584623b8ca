"""Schemas of the OpenAPI document drop the word Shape: two of them must not become one by that."""

from __future__ import annotations

from collections import Counter

import msgspec

from windlass.server.serving import ROUTES
from windlass.web.openapi import _plainly_named, _types
from windlass.web.routing import Router


def test_no_two_schemas_have_the_same_name() -> None:
    _, components = msgspec.json.schema_components(_types(Router(ROUTES).routes))
    plain = Counter(next(iter(_plainly_named({name: None}))) for name in components)
    assert [name for name, count in plain.items() if count > 1] == []
