"""The list of saved filters, and who may see one."""

from __future__ import annotations

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.filters.sample_filters import save
from tests.support.namespace import list_keys, send_command
from windlass.core.access.tokens import Principal, Role
from windlass.core.filters.saved_filter import PAGES, SavedFilter
from windlass.service import Service
from windlass.store.store import Store


def test_saved_filters_are_listed_by_name(service: Service, store: Store) -> None:
    second = save(service, "Übersicht", page="flows", state="running")
    first = save(service, "late mail", since="6h", name="send_*", order="newest")
    assert service.filters().wait() == [first, second]
    assert list_keys(store) == [b"filters"]
    assert_healthy(service)


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
