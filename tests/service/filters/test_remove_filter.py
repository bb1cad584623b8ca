"""Remove a saved filter."""

from __future__ import annotations

import pytest

from tests.service.filters.sample_filters import save
from tests.support.namespace import list_keys
from windlass.core.errors import UnknownFilter
from windlass.service import Service
from windlass.store.store import Store


def test_a_filter_is_removed_once(service: Service, store: Store) -> None:
    save(service, "late")
    service.remove_filter("late").wait()
    assert list_keys(store) == []
    with pytest.raises(UnknownFilter, match="'late'"):
        service.remove_filter("late").wait()
