"""import_jobs into other partitions: ids and relations are remade."""

from __future__ import annotations

from collections.abc import Callable

from tests.service.export.example_deployment import HOOK, HOUR, drain, export_lines, snapshot, transfer
from tests.service.helpers import counts, new, put, take
from tests.service.machines import invariants
from windlass.core.ids import partition_of_id, with_partition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store.store import Store


def test_an_id_is_remade_only_if_it_must_be() -> None:
    old = bytes.fromhex("01890a5dac9670058000b5c1d0b7a3f2")
    assert partition_of_id(old) == 5
    assert with_partition(old, 5, 8) == with_partition(old, 1, 4) == with_partition(old, 0, 1) == old
    remade = with_partition(old, 3, 4)
    assert (partition_of_id(remade), remade[:6], remade[8:], remade[6] >> 4) == (3, old[:6], old[8:], 7)


def test_to_several_partitions_and_back(service: Service, divided_store: Callable[[int], Store]) -> None:
    target = Service(divided_store(3))
    for one in range(4):
        (first,) = put(service, new(f"{{{one}}}a", callback=HOOK))
        put(service, new(f"{{{one}}}b", after=(first.id,)))
        (parent,) = [*put(service, new(f"{{{one}}}p"))]
        take(service, f"{{{one}}}p")
        put(service, new(f"{{{one}}}c", parent=parent.id, held=True))
        service.schedule(Schedule(name=f"s{one}", job=new(f"{{{one}}}s"), every_ms=HOUR)).wait()
        service.run_schedule(f"s{one}").wait()
        service.cancel([put(service, new(f"{{{one}}}h", callback=HOOK))[0].id]).wait()
    answer = transfer(service, target)
    assert answer.added["job"] == 24
    assert answer.remade_ids > 0
    for partition in range(3):
        found = snapshot(target.store, partition)
        invariants.check(found)
        assert all(target.store.partition_of_queue(one.job.queue) == partition for one in found.jobs.values())
        assert all(target.store.partition_of_job(job_id) == partition for job_id in found.jobs)
    assert target.import_jobs(export_lines(service)).wait().existing == answer.added
    for one in range(4):
        drain(target, [f"{{{one}}}{kind}" for kind in "abpc"])
        assert counts(target, f"{{{one}}}b") == counts(target, f"{{{one}}}c") == counts(target, f"{{{one}}}p") == {}


def test_relations_that_would_cross_partitions_are_refused(
    service: Service, divided_store: Callable[[int], Store]
) -> None:
    target = Service(divided_store(3))
    homes = {target.store.partition_of_queue(queue): queue for queue in "abcdefgh"}
    here, there = homes[0], homes[1]
    (first, parent) = put(service, new(here), new(here))
    put(service, new(there, after=(first.id,)))
    jobs = take(service, here, 2)
    put(service, new(there, parent=parent.id, held=True))
    assert len(jobs) == 2
    service.limit(Limit(name="everywhere", matches=Matcher(), running=1)).wait()
    answer = target.import_jobs(service.export()).wait()
    assert answer.refused == {"job": 2, "limit": 1}
    assert {one.code for one in answer.reasons} == {"cross_partition"}
    assert counts(target, here) == {"queued": 2}
    assert counts(target, there) == {}
    for partition in range(3):
        invariants.check(snapshot(target.store, partition))
