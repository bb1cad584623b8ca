"""Save, replace and rename a filter; the bound, and a call that is repeated."""

from __future__ import annotations

import pytest

from tests.service.filters.sample_filters import save
from windlass.core.errors import IdConflict, TooLarge, UnknownFilter
from windlass.core.filters.saved_filter import FILTERS_MAX
from windlass.service import Service


def test_a_filter_of_the_same_name_is_replaced(service: Service) -> None:
    save(service, "late")
    second = save(service, "late", tag="shop")
    assert service.filters().wait() == [second]


def test_a_filter_is_renamed_and_may_change(service: Service) -> None:
    save(service, "late")
    changed = save(service, "later", former="late", tag="shop")
    assert service.filters().wait() == [changed]
    assert save(service, "later", former="later", tag="other") == service.filters().wait()[0]
    with pytest.raises(UnknownFilter, match="'late'"):
        save(service, "latest", former="late")


def test_a_renamed_filter_never_replaces_another(service: Service) -> None:
    kept = [save(service, "a"), save(service, "b", tag="shop")]
    with pytest.raises(IdConflict, match="'b'"):
        save(service, "b", former="a")
    assert service.filters().wait() == kept


def test_a_repeated_rename_succeeds(service: Service) -> None:
    """The reply of the first call may have been lost."""
    save(service, "a")
    for _ in range(2):
        save(service, "b", former="a")
    assert [saved.name for saved in service.filters().wait()] == ["b"]


def test_a_rename_to_the_name_of_an_equal_filter_is_refused(service: Service) -> None:
    save(service, "a")
    save(service, "b")
    with pytest.raises(IdConflict):
        save(service, "b", former="a")


def test_the_number_of_filters_is_bounded(service: Service) -> None:
    for number in range(FILTERS_MAX):
        save(service, f"f{number}")
    with pytest.raises(TooLarge, match="remove unused"):
        save(service, "one more")
    save(service, "f0", tag="changed")
    save(service, "renamed", former="f0")
    assert len(service.filters().wait()) == FILTERS_MAX
