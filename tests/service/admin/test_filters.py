"""Saved filters: save, replace, rename, remove, list; their bounds, and a call that is repeated."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.support.namespace import list_keys, send_command
from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import IdConflict, TooLarge, UnknownFilter
from windlass.core.filters.saved_filter import FILTERS_MAX, PAGES, SavedFilter
from windlass.service import Service
from windlass.store.store import Store

FAILED = {"state": "failed", "queue": "mail"}


def save(service: Service, title: str, /, former: str = "", page: str = "jobs", **fields: str) -> SavedFilter:
    saved = SavedFilter(name=title, page=page, fields=fields or FAILED)
    service.save_filter(saved, former=former).wait()
    return saved


def test_saved_filters_are_listed_by_name(service: Service, store: Store) -> None:
    second = save(service, "Übersicht", page="flows", state="running")
    first = save(service, "late mail", since="6h", name="send_*", order="newest")
    assert service.filters().wait() == [first, second]
    assert list_keys(store) == [b"filters"]
    assert_healthy(service)


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


def test_a_filter_is_removed_once(service: Service, store: Store) -> None:
    save(service, "late")
    service.remove_filter("late").wait()
    assert list_keys(store) == []
    with pytest.raises(UnknownFilter, match="'late'"):
        service.remove_filter("late").wait()


def test_the_number_of_filters_is_bounded(service: Service) -> None:
    for number in range(FILTERS_MAX):
        save(service, f"f{number}")
    with pytest.raises(TooLarge, match="remove unused"):
        save(service, "one more")
    save(service, "f0", tag="changed")
    save(service, "renamed", former="f0")
    assert len(service.filters().wait()) == FILTERS_MAX


def test_a_filter_of_a_later_version_hides_no_other(service: Service, store: Store) -> None:
    known = save(service, "late")
    send_command(store, "HSET", f"{store.root(0)}:filters", "future", b"\x93\xc0\xc0\xc0")
    assert service.filters().wait() == [known]


def test_only_tokens_for_its_queue_see_a_filter_that_names_one() -> None:
    mail = Principal("mail", frozenset({Role.READ}), ("mail",))
    anyone = Principal("any", frozenset({Role.READ}))
    admin = Principal("admin", frozenset({Role.ADMIN}))
    seen = {
        ("jobs", "mail"): (True, True, True),
        ("jobs", "payments"): (False, True, True),
        ("failures", "payments"): (False, True, True),
        ("jobs", ""): (True, True, True),
        ("audit", ""): (False, False, True),
    }
    for (page, queue), expected in seen.items():
        saved = SavedFilter(name="f", page=page, fields={"queue": queue} if queue else {})
        assert tuple(map(saved.is_visible_to, (mail, anyone, admin))) == expected, (page, queue)


def test_every_page_that_names_queues_does_so_in_the_field_queue() -> None:
    """Visibility looks at this field only."""
    assert {field for fields in PAGES.values() for field in fields if "queue" in field} == {"queue"}
