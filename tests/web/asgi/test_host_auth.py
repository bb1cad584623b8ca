"""Answers of a host's function `role`, and the principals that they make."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import Access
from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import BadSetting
from windlass.web.asgi.host_auth import principal_of


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (None, None),
        ("admin", Principal("host", frozenset({Role.ADMIN}))),
        (Role.READ, Principal("host", frozenset({Role.READ}))),
        (Access(role="read", name="ada"), Principal("ada", frozenset({Role.READ}))),
        (Access(role="read", name=""), Principal("host", frozenset({Role.READ}))),
        (Access(role=()), Principal("host", frozenset())),
        (
            Access(role=["read", "produce"], name="ada", queues=["mail", "img-*"]),
            Principal("ada", frozenset({Role.READ, Role.PRODUCE}), ("mail", "img-*")),
        ),
        (Access(role="read", queues="mail"), Principal("host", frozenset({Role.READ}), ("mail",))),
    ],
)
def test_an_answer_makes_a_principal(answer: Any, wanted: Principal | None) -> None:
    assert principal_of(answer) == wanted


@pytest.mark.parametrize("answer", [True, False, 1, "", "root", "Admin", ["admin"], Access(role="root")])
def test_refuses_an_answer_that_names_no_role(answer: Any) -> None:
    with pytest.raises(BadSetting, match="`role` has returned"):
        principal_of(answer)
