"""Format of a namespace: opening keeps it, it only grows, and a program that does not know it is refused."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tests.service.durable import builders
from tests.service.helpers import another, counts, new, put, take
from tests.support.engine_process import EngineProcess
from tests.support.namespace import dump_keys, send_command
from tests.support.stores import discard, make_store
from windlass import __version__
from windlass.core.errors import BadInput, EngineUnsuitable
from windlass.core.export.lines import decode_header, encode_line
from windlass.core.namespace.format import FIRST, KNOWN, SINCE, WITH_STEPS, NamespaceFormat
from windlass.service import Service
from windlass.store.commands.admin.maintenance import require_format
from windlass.store.store import Store
from windlass.store.topology.namespace_format import raise_format, read_without_opening, stored_format

TOO_NEW = KNOWN + 1
REFUSED = (
    rf"has format {TOO_NEW}, for Windlass 9\.0\.0 or newer\. This is Windlass {__version__}, which reads formats up to "
    rf"{KNOWN}\. Nothing was changed\. Upgrade this program"
)


def formats(store: Store) -> list[list[bytes | None]]:
    return [send_command(store, "HMGET", root, "layout", "needs_version") for root in store.roots]


def raise_beyond(store: Store, partition: int) -> None:
    """Raise the format as a newer version does."""
    store.run_sync(flow_of(require_format(TOO_NEW, "9.0.0", partition)))


def flow_of(command: object) -> object:
    return (yield command)


def test_opening_keeps_the_format(service: Service) -> None:
    store = service.store
    assert store.open_sync().format == NamespaceFormat(FIRST)
    assert store.run_sync(raise_format(range(store.partitions), KNOWN)) == KNOWN
    opened = another(service)
    assert opened.store.open_sync().format == NamespaceFormat(KNOWN, SINCE[KNOWN])
    put(opened, new())
    opened.store.close_sync()
    assert store.run_sync(stored_format(store.roots)) == NamespaceFormat(KNOWN, SINCE[KNOWN])


def test_it_is_raised_in_all_partitions_and_never_lowered(engine: EngineProcess) -> None:
    store = make_store(engine, partitions=3)
    store.open_sync()
    assert formats(store) == [[b"1", None]] * 3
    raised = [[str(KNOWN).encode(), SINCE[KNOWN].encode()]] * 3
    assert store.run_sync(raise_format(range(3), KNOWN)) == KNOWN
    assert formats(store) == raised
    assert store.run_sync(raise_format(range(3), FIRST)) == KNOWN
    assert formats(store) == raised
    for wrong in (FIRST - 1, TOO_NEW):
        with pytest.raises(BadInput, match="highest that this version reads"):
            store.run_sync(raise_format(range(3), wrong))
    discard(store)


@pytest.mark.parametrize("partition", [0, 2])
def test_an_unknown_format_is_refused_and_nothing_changes(engine: EngineProcess, partition: int) -> None:
    store = make_store(engine, partitions=3)
    service = Service(store)
    put(service, new())
    raise_beyond(store, partition)
    before, roots = dump_keys(store), formats(store)
    late = another(service)
    with pytest.raises(EngineUnsuitable, match=REFUSED):
        late.store.open_sync()
    late.store.close_sync()
    assert (dump_keys(store), formats(store)) == (before, roots)
    discard(store)


def test_a_running_program_is_refused_when_it_connects_again(engine: EngineProcess) -> None:
    store = make_store(engine)
    service = Service(store)
    put(service, new(), new())
    raise_beyond(store, 0)
    assert len(take(service)) == 1, "its connection lasts"
    store._sync_connection._connection.close()  # type: ignore[union-attr]
    with pytest.raises(EngineUnsuitable, match=REFUSED):
        take(service)

    async def run_async() -> None:
        other = store.clone()
        try:
            with pytest.raises(EngineUnsuitable, match=REFUSED):
                await Service(other).queues()
        finally:
            await other.close()

    asyncio.run(run_async())
    discard(store)


def test_an_export_carries_the_format(service: Service, target: Service) -> None:
    put(service, new())
    assert decode_header(next(iter(service.export()))).namespace_format == FIRST
    assert b"namespace_format" not in next(iter(service.export())), "version 0.1.0 refuses fields that it does not know"
    service.store.run_sync(raise_format([0], KNOWN))
    lines = list(service.export())
    assert decode_header(lines[0]).namespace_format == KNOWN
    target.import_jobs(lines).wait()
    assert target.store.run_sync(stored_format(target.store.roots)).number == KNOWN


def test_an_export_of_an_unknown_format_is_refused(service: Service, target: Service) -> None:
    put(service, new())
    header, *rest = list(service.export())
    found = decode_header(header)
    lines = [encode_line(replace(found, namespace_format=TOO_NEW, windlass="9.0.0")), *rest]
    with pytest.raises(BadInput, match=rf"Line 1: .* format {TOO_NEW}, of Windlass 9\.0\.0\. This is Windlass"):
        target.import_jobs(lines).wait()
    assert not counts(target)


# A job with steps


def test_the_first_step_refuses_versions_that_do_not_know_steps(engine: EngineProcess) -> None:
    deployment = make_store(engine, partitions=3)
    service = Service(deployment)
    durable = builders.start(service)
    assert formats(deployment) == [[b"1", None]] * 3, "a job without steps excludes no version"
    builders.store(service, durable)
    home = deployment.partition_of_job(durable.id)
    raised = [str(WITH_STEPS).encode(), b"0.2.0"]
    assert formats(deployment) == [raised if partition == home else [b"1", None] for partition in range(3)]
    found = NamespaceFormat(WITH_STEPS, "0.2.0")
    assert deployment.run_sync(stored_format(deployment.roots)) == found
    assert read_without_opening(deployment.topology, deployment.namespace, 5.0) == found
    discard(deployment)


def test_a_restored_job_with_steps_does_the_same(service: Service, target: Service) -> None:
    builders.store(service, builders.start(service))
    _, *lines, _ = list(service.export())
    target.import_part(lines).wait()
    target.complete_import().wait()
    assert target.store.run_sync(stored_format(target.store.roots)).number == WITH_STEPS
