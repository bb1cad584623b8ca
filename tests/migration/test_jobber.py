"""Jobs of Jobber's Redis: keys of the document and of the code, order, locks, and entries that are no jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.migration.source_redis import SourceRedis, drain, migrate
from tests.support.namespace import dump_keys
from windlass.core.ids import format_id, parse_id
from windlass.core.job import NULL_BLOB
from windlass.dialects.jobber import JobberJob
from windlass.migration.jobber import JobberReader
from windlass.migration.report import MigrationReport
from windlass.service import Service
from windlass.store.job_source import JobSource

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

QUEUE = "job_queue_mail"


def uuid4(number: int) -> str:
    return f"{number:08x}-1111-4222-8333-{number:012x}"


def entry(number: int, payload: Any = None, **more: Any) -> str:
    return json.dumps({"id": uuid4(number), "type": "mail", "payload": payload} | more)


def move(service: Service, old: SourceRedis, *, dry: bool = False, includes_running: bool = False) -> MigrationReport:
    with JobSource(old.url, "jobber") as source:
        return migrate(service, source, JobberReader(source, includes_running=includes_running), dry=dry)


def ids(service: Service, queue: str = QUEUE) -> list[str]:
    return [format_id(job.id) for job in drain(service, queue)]


def test_jobs_of_the_document_keep_their_id_and_order(service: Service, old: SourceRedis) -> None:
    for number in range(250):  # more than two pages
        old.call("LPUSH", QUEUE, entry(number, {"n": number}))
    old.call("LPUSH", "job_queue_sms", entry(900, [1], type="sms"))
    report = move(service, old)
    assert (report.moved, report.problems, dict(report.queues)) == (251, 0, {QUEUE: 250, "job_queue_sms": 1})
    jobs = drain(service, QUEUE)
    assert [format_id(job.id) for job in jobs] == [uuid4(number) for number in range(250)]
    assert [json.loads(job.payload.data) for job in jobs] == [{"n": number} for number in range(250)]
    assert ids(service, "job_queue_sms") == [uuid4(900)]
    assert old.call("EXISTS", QUEUE) == 0


def test_a_job_is_as_the_api_would_make_it(service: Service, old: SourceRedis) -> None:
    old.call("LPUSH", QUEUE, entry(1, {"to": "a"}))
    move(service, old)
    moved = service.job([parse_id(uuid4(1))]).one().wait().job
    made = JobberJob(type="mail", payload=b'{"to": "a"}').new_job()  # type: ignore[arg-type]
    made_id = service.enqueue([made]).one().wait().id
    same = service.job([made_id]).one().wait().job
    for field in set(moved.__struct_fields__) - {"id", "sequence", "created_at_ms", "run_at_ms", "revision"}:
        assert getattr(moved, field) == getattr(same, field), field


def test_names_and_payloads_of_the_code(service: Service, old: SourceRedis) -> None:
    """The code pushes to the right end and stores the payload as text that holds JSON."""
    for number, payload in enumerate(('{"a": 1}', "null", "not json", '"text"')):
        old.call("RPUSH", "mail_queue", entry(number, payload))
    old.call("RPUSH", "mail_queue", json.dumps({"id": uuid4(9), "type": "mail"}))
    assert move(service, old).moved == 5
    jobs = drain(service, QUEUE)
    assert [format_id(job.id) for job in jobs] == [uuid4(number) for number in (0, 1, 2, 3, 9)]
    assert [job.payload.data for job in jobs] == [b'{"a": 1}', b"null", b'"not json"', b'"text"', NULL_BLOB.data]


@pytest.mark.parametrize("key", ["in_process_queue", "InProcess_queue"])
def test_taken_jobs_come_first_and_locked_ones_stay(service: Service, old: SourceRedis, key: str) -> None:
    old.call("LPUSH", QUEUE, entry(5))
    for number in (1, 2, 3):
        old.call("LPUSH", key, entry(number))
    old.call("SET", uuid4(2), "worker", "EX", 100)
    report = move(service, old)
    assert (report.moved, report.running, report.in_flight, report.is_complete) == (3, 1, 2, False)
    assert old.call("LRANGE", key, 0, -1) == [entry(2).encode()]
    assert ids(service) == [uuid4(1), uuid4(3), uuid4(5)]
    assert move(service, old, includes_running=True).moved == 1
    assert ids(service) == [uuid4(2)]


def test_a_job_that_the_recoverer_left_in_two_lists_comes_once(service: Service, old: SourceRedis) -> None:
    for key in (QUEUE, QUEUE, "in_process_queue"):
        old.call("LPUSH", key, entry(1))
    report = move(service, old)
    assert (report.moved, report.moved_before) == (1, 2)
    assert ids(service) == [uuid4(1)]


def test_entries_that_are_no_jobs_are_reported_and_stay(service: Service, old: SourceRedis) -> None:
    wrong = ["{", "[]", '"text"', "{}", '{"id": 5}', '{"id": ""}', b"\xff\xfe", "[" * 5000]
    for text in wrong:
        old.call("LPUSH", QUEUE, text)
        old.call("LPUSH", QUEUE, entry(wrong.index(text)))
    old.call("LPUSH", "in_process_queue", json.dumps({"id": uuid4(77)}))  # of which type?
    old.call("SET", "job_queue_text", "x")
    old.call("ZADD", "other_queue", 1, "of another program")
    report = move(service, old)
    assert (report.moved, report.problems, report.is_complete) == (len(wrong), len(wrong) + 2, False)
    assert {problem.key for problem in report.reasons} == {QUEUE, "in_process_queue", "job_queue_text"}
    assert all(problem.reason and len(problem.entry) <= 200 for problem in report.reasons)
    assert old.call("LLEN", QUEUE) == len(wrong)
    assert ids(service) == [uuid4(number) for number in range(len(wrong))]


def test_jobs_that_the_api_would_refuse_stay(service: Service, old: SourceRedis) -> None:
    old.call("LPUSH", QUEUE, entry(1), entry(2, "x" * 1_100_000), entry(3))
    old.call("LPUSH", f"job_queue_{'x' * 300}", entry(4, type="x" * 300))
    for dry in (True, False):
        report = move(service, old, dry=dry)
        assert (report.moved, report.problems) == (2, 2)
        assert any("at most" in problem.reason for problem in report.reasons)
    assert ids(service) == [uuid4(1), uuid4(3)]
    assert old.call("LLEN", QUEUE) == 1


def test_ids_that_are_no_random_uuids_get_a_derived_one(service: Service, old: SourceRedis) -> None:
    names = ["7", "0c8f1a2e-0000-11ee-8000-0242ac120002", "1c8f1a2e-0000-11ee-8000-0242ac120002"]  # one host's UUIDv1
    for name in names:
        old.call("LPUSH", QUEUE, json.dumps({"id": name, "type": "mail", "payload": name}))
    assert move(service, old).moved == 3
    jobs = drain(service, QUEUE)
    assert [json.loads(job.payload.data) for job in jobs] == [7, *names[1:]]
    assert len({job.id for job in jobs}) == 3


def test_a_dry_run_changes_nothing(service: Service, old: SourceRedis) -> None:
    for number in range(150):
        old.call("LPUSH", QUEUE, entry(number))
    old.call("LPUSH", "in_process_queue", "wrong")
    service.store.open_sync()
    there, here = old.dump(), dump_keys(service.store)
    report = move(service, old, dry=True)
    assert (report.moved, report.problems, len(report.sample)) == (150, 1, 5)
    assert (old.dump(), dump_keys(service.store)) == (there, here)


def test_partitions_change_ids_and_the_report_tells_it(divided_store: Any, old: SourceRedis) -> None:
    service = Service(divided_store(4))
    for number in range(20):
        old.call("LPUSH", f"job_queue_{number}", entry(number, type=str(number)))
    report = move(service, old)
    assert (report.moved, 0 < report.changed_ids <= 20) == (20, True)
    assert sum(len(drain(service, f"job_queue_{number}")) for number in range(20)) == 20
