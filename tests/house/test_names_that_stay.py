"""Public and stored names stay when code moves."""

from __future__ import annotations

import pytest

from tests.house.names_that_stay import collect, read


@pytest.mark.parametrize("section", sorted(collect()))
def test_no_public_name_is_lost_or_unlisted(section: str) -> None:
    found, kept = set(collect()[section]), set(read()[section])
    assert kept - found == set(), "users or stored data rely on these names: keep them, as aliases where code has moved"
    assert found - kept == set(), "add new names on purpose: run `python tools/write_names_that_stay.py`"


def test_every_section_is_kept() -> None:
    assert set(collect()) == set(read())
