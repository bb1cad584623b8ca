"""Large export: memory and calls stay in proportion."""

from __future__ import annotations

import tracemalloc

from tests.service.helpers import counts, new, put
from tests.service.machines.dependency_builders import run_all_steps
from tests.support.namespace import send_command
from windlass.core.job import Blob
from windlass.core.operations import Finish, Take
from windlass.core.validation.bounds import PAYLOAD_STORED_MAX
from windlass.service import Service

JOBS = 20_000
WATCHED = range(8_000, 14_000)  # lines during which memory is watched, which is slow
MEMORY_MAX = 2_500_000  # the lines are more than this; most of it is the window of ids


def calls(service: Service) -> int:
    stats = send_command(service.store, "INFO", "commandstats").decode().split()
    command = "fcall" if service.store.calls_by == "functions" else "evalsha"
    (counted,) = [line for line in stats if line.startswith(f"cmdstat_{command}:")]
    return int(counted.partition("calls=")[2].partition(",")[0])


def watched(service: Service) -> tuple[int, int]:
    """How many bytes went by, and how many were held at once."""
    size = 0
    for number, line in enumerate(service.export()):
        if number == WATCHED.start:
            tracemalloc.start()
        if number in WATCHED:
            size += len(line)
        if number == WATCHED.stop:
            break
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size, peak


def test_twenty_thousand_jobs(service: Service, target: Service) -> None:
    for _ in range(JOBS // 1000):
        service.enqueue([new(payload=Blob(b'"%s"' % (b"x" * 300))) for _ in range(1000)]).wait()
    size, peak = watched(service)
    assert peak < MEMORY_MAX < size, f"{peak / 1e6:.1f} MB of {size / 1e6:.1f} MB"
    before = calls(service)
    answer = target.import_jobs(service.export()).wait()
    assert answer.added["job"] == JOBS == counts(target)["queued"]
    assert calls(service) - before < JOBS / 20, "more calls than pages"


def test_large_payloads_come_in_small_answers(service: Service, target: Service) -> None:
    for _ in range(60):
        put(service, new(payload=Blob(b'"%s"' % (b"x" * 1_000_000))))
    tracemalloc.start()
    answer = target.import_jobs(service.export()).wait()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.added["job"] == 60
    assert peak < 30_000_000, f"{peak / 1e6:.1f} MB"


def test_a_parent_of_many_children_and_one_that_waits_for_many(service: Service, target: Service) -> None:
    put(service, new("parent"))
    (parent,) = service.take(Take(queues=("parent",))).wait().jobs
    put(service, *(new("child", parent=parent.id, held=True) for _ in range(3_000)))
    ids = [one.id for one in put(service, *(new("first") for _ in range(1_000)))]
    put(service, new("last", after=tuple(ids)))
    service.finish([Finish(parent.id, parent.lease_token)]).one().wait()
    answer = target.import_jobs(service.export()).wait()
    assert answer.added["job"] == 4_002
    run_all_steps(target)
    assert counts(target, "child") == {"queued": 3_000}
    assert counts(target, "parent") == counts(target, "last") == {"waiting": 1}
    for queue in ("child", "first"):
        while jobs := target.take(Take(queues=(queue,), most=1000)).wait().jobs:
            target.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
    run_all_steps(target)
    assert counts(target, "parent") == counts(target, "last") == {"queued": 1}


def test_payloads_that_only_a_setting_allows_are_imported(service: Service, target: Service) -> None:
    roomy = Service(service.store, payload_max=PAYLOAD_STORED_MAX)
    roomy.enqueue([new(payload=Blob(b'"%s"' % (b"x" * (PAYLOAD_STORED_MAX - 2))))]).wait()
    assert target.import_jobs(service.export()).wait().added["job"] == 1
