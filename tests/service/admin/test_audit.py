"""audit and audits: entries of the audit log, newest first, bounded."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.support.namespace import dump_keys, send_command
from windlass.core.access.audit import DETAIL_MAX, ENTRIES_KEPT, AuditEntry
from windlass.core.errors import BadInput, TooLarge
from windlass.service import Service
from windlass.store.commands.admin import audit as calls
from windlass.store.store import Store


def entry(number: int = 0) -> AuditEntry:
    return AuditEntry(who="anna", what="pause_queue", target=str(number))


def targets(service: Service, most: int = 50, cursor: str = "") -> list[str]:
    return [one.target for one in service.audits(most=most, cursor=cursor).wait().entries]


def test_an_entry_comes_back_with_the_time_of_the_engine(service: Service, store: Store) -> None:
    said = AuditEntry(
        who="änna",
        what="purge_queue",
        target="mail",
        detail='{"states": ["queued"]}\nsecond line',
        outcome="forbidden",
        peer="2001:db8::1",
        at_ms=5,
    )
    store.clock_offset_ms += 3_600_000
    before_ms = service.now().wait()
    service.audit([said]).wait()
    (found,) = service.audits().wait().entries
    assert before_ms - 1_000 <= found.at_ms <= before_ms + 60_000
    assert AuditEntry(**{field: getattr(found, field) for field in said.__struct_fields__} | {"at_ms": 5}) == said


def test_an_empty_log(service: Service, store: Store) -> None:
    service.audit([]).wait()
    page = service.audits().wait()
    assert (page.entries, page.cursor) == ([], "")
    assert dump_keys(store) == {}


def test_the_newest_comes_first_however_the_clock_goes(service: Service, store: Store) -> None:
    service.audit([entry(1), entry(2)]).wait()
    store.clock_offset_ms -= 60_000
    service.audit([entry(3)]).wait()
    store.clock_offset_ms += 120_000
    service.audit([entry(4)]).wait()
    assert targets(service) == ["4", "3", "2", "1"]


def test_pages_hold_everything_once_though_entries_come_in_between(service: Service) -> None:
    service.audit([entry(number) for number in range(7)]).wait()
    seen, cursor = [], ""
    for _ in range(4):
        page = service.audits(most=2, cursor=cursor).wait()
        seen += [one.target for one in page.entries]
        cursor = page.cursor
        service.audit([entry(99)]).wait()
    assert seen == ["6", "5", "4", "3", "2", "1", "0"]
    assert cursor == ""


def test_a_page_that_is_just_full_is_the_last(service: Service) -> None:
    service.audit([entry(1), entry(2)]).wait()
    assert service.audits(most=2).wait().cursor == ""
    assert service.audits(most=1).wait().cursor != ""


def test_the_oldest_go(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "ENTRIES_KEPT", 5)
    service.audit([entry(number) for number in range(3)]).wait()
    service.audit([entry(number) for number in range(3, 7)]).wait()
    assert targets(service) == ["6", "5", "4", "3", "2"]


def test_no_more_than_the_constant_says_are_kept(service: Service, store: Store) -> None:
    thousand = [entry(number) for number in range(1_000)]
    for _ in range(ENTRIES_KEPT // 1_000 + 1):
        service.audit(thousand).wait()
    assert send_command(store, "XLEN", f"{store.root(0)}:audit") == ENTRIES_KEPT


def test_it_is_written_when_the_engine_is_full(service: Service, store: Store) -> None:
    service.audit([entry(0)]).wait()
    send_command(store, "CONFIG", "SET", "maxmemory", "1")
    try:
        service.audit([entry(1)]).wait()
    finally:
        send_command(store, "CONFIG", "SET", "maxmemory", "0")
    assert targets(service) == ["1", "0"]


def test_a_cursor_of_ones_own_is_refused(service: Service) -> None:
    for cursor in ("x", "1", "1-", "-1", "1-1 ", "(1-1", f"{2**64}-1"):
        with pytest.raises(BadInput, match="does not come from a page"):
            service.audits(cursor=cursor)


def test_too_long_texts_are_refused_and_can_be_fitted(service: Service) -> None:
    strange = AuditEntry(who="a\0b" * 100, what="x", target="\ud800" * 900, detail="ü" * 9_000, peer="\n")
    with pytest.raises((BadInput, TooLarge)):
        service.audit([strange])
    service.audit([strange.sanitize()]).wait()
    (found,) = service.audits().wait().entries
    assert found.who.startswith("a ba b")
    assert len(found.detail.encode()) <= DETAIL_MAX
    assert found.detail.endswith("ü…")


def test_what_fits_is_left_as_it_is() -> None:
    said = AuditEntry(who="änna", what="x", target="a\nb", detail="ü" * (DETAIL_MAX // 2))
    assert said.sanitize() == said


def test_the_doctor_knows_it(service: Service) -> None:
    service.audit([entry()]).wait()
    assert_healthy(service)


def test_it_is_not_exported(service: Service, target: Service) -> None:
    service.audit([entry()]).wait()
    target.import_jobs(list(service.export())).wait()
    assert targets(target) == []
