"""index_fields: the indexed payload fields of queues, and of the producers of their jobs."""

from __future__ import annotations

from tests.service.helpers import new, put
from windlass.core.job import Blob
from windlass.service import Service
from windlass.store.commands import queues
from windlass.store.commands.queues import IndexFields


def index_fields(service: Service, *names: str) -> list[IndexFields]:
    found = service.store.run_sync(_read(names))
    assert all(isinstance(fields, IndexFields) for fields in found)
    return found  # type: ignore[no-any-return]


def _read(names: tuple[str, ...]):  # type: ignore[no-untyped-def]
    return (yield queues.index_fields(names, 0))


def test_fields_of_queues_and_of_producers(service: Service) -> None:
    service.configure("a", {"index": ("x", "y.z")}).wait()
    put(service, new("a", index=("own",)), new("b", index=("own", "x")), new("b", index=("x", "later")), new("c"))
    assert index_fields(service, "a", "b", "c", "none") == [
        IndexFields(("x", "y.z"), ("own",)),
        IndexFields((), ("own", "x", "later")),
        IndexFields((), ()),
        IndexFields((), ()),
    ]


def test_a_replaced_job_brings_its_fields(service: Service) -> None:
    put(service, new(unique="u", index=("before",)))
    put(service, new(unique="u", unique_check="replace", index=("after",)))
    assert index_fields(service, "q") == [IndexFields((), ("before", "after"))]


def test_remembered_fields_of_producers_are_bounded(service: Service) -> None:
    for number in range(100):
        put(service, new(payload=Blob(b"{}"), index=(f"{number:060}",)))
    [fields] = index_fields(service, "q")
    assert 60 < len(fields.producers) < 70
    put(service, new(payload=Blob(b'{"f": 1}'), index=("f",)))
    assert "f" in index_fields(service, "q")[0].producers
