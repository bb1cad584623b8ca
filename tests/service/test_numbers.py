"""Numbers of jobs: reserved for new jobs, given to others on request, removed with the job."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import assert_healthy, findings
from tests.service.helpers import new, put, read, take
from tests.service.machines.dependency_builders import assert_consistent
from tests.support.namespace import dump_keys
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.ids import (
    NUMBER_MAX,
    download_id_of_number,
    make_id,
    number_of_download_id,
    number_of_id,
    numbered_id,
    partition_of_id,
    public_number,
    split_public_number,
)
from windlass.core.operations import Finish
from windlass.service import Service


def test_an_id_is_made_of_a_number() -> None:
    for number in (1, 77, NUMBER_MAX):
        job_id = numbered_id(number, 7)
        assert (number_of_id(job_id), partition_of_id(job_id)) == (number, 7)
    assert number_of_id(make_id(1, 7, 77)) is None
    assert number_of_id(b"number" + make_id(1, 7, 77)[6:]) is None


def test_public_numbers_name_the_partition() -> None:
    for number in (1, 77, 2**40 - 1):
        assert public_number(number, 3, home=3) == number, "as before in the partition of Bedrock's own queue"
        for partition in (0, 2, 4, 4095):
            public = public_number(number, partition, home=3)
            assert public < 2**53
            assert split_public_number(public, 3, 4096) == (partition, number)
    assert split_public_number(5 << 40 | 1, 0, 1) == (0, 5 << 40 | 1), "no such partition"


def test_a_download_id_contains_a_number() -> None:
    for number in (1, 2, 2**40, NUMBER_MAX):
        made = download_id_of_number(number)
        assert len(made) == 14
        assert number_of_download_id(made) == number
    for other in ("", "abc", "Uk9bZl8xR2Fvbn", "AAAAAAAAAAAAAA", download_id_of_number(1) + "A", "ä" * 14):
        assert number_of_download_id(other) is None


def test_numbers_follow_each_other(service: Service) -> None:
    drawn = service.reserve_numbers("q", 3).wait() + service.reserve_numbers("q").wait()
    assert [number_of_id(one) for one in drawn] == [1, 2, 3, 4]
    put(service, new(id=drawn[1]))
    assert service.number([drawn[1]]).wait() == [2]
    assert service.numbered_id("q", 2) == drawn[1]
    assert_consistent(service)


def test_a_job_gets_a_number_once_and_keeps_it(service: Service) -> None:
    first, second = put(service, new(), new())
    service.reserve_numbers("q").wait()
    assert service.number([second.id, first.id, second.id]).wait() == [2, 3, 2]
    assert service.number([first.id]).wait() == [3]
    assert service.find_numbers([3, 2]).wait() == [first.id, second.id]
    (missing,) = service.find_numbers([1]).wait()
    assert isinstance(missing, UnknownJob)
    put(service, new(id=service.id_of_number(1)))
    assert service.find_numbers([1]).wait() == [service.id_of_number(1)]
    assert read(service, first.id).revision == 1, "its content is the same"
    assert_consistent(service)


def test_a_number_goes_with_its_job(service: Service) -> None:
    (made,) = put(service, new())
    service.number([made.id]).wait()
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    (missing,) = service.find_numbers([1]).wait()
    assert isinstance(missing, UnknownJob)
    (gone,) = service.number([made.id]).wait()
    assert isinstance(gone, AlreadyEnded)
    assert number_of_id(service.reserve_numbers("q").wait()[0]) == 2, "and is never given out again"
    assert_consistent(service)


def test_an_import_draws_behind_the_numbers_it_brought(service: Service, target: Service) -> None:
    drawn = service.reserve_numbers("q", 5).wait()
    put(service, new(id=drawn[3]))
    target.import_jobs(list(service.export())).wait()
    assert read(target, drawn[3]).id == drawn[3]
    assert number_of_id(target.reserve_numbers("q").wait()[0]) == 5


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (("DEL", "numbers"), "belongings_lost"),
        (("DEL", "numbered"), "belongings_unmarked"),
        (("SET", "number", "0"), "counter_behind"),
        (("HSET", "numbers", "x" * 16, "9"), "ghost"),
        (("HSET", "numbered", "9", "x" * 16), "ghost"),
    ],
)
def test_the_doctor_knows_them(service: Service, damage: tuple[str, ...], kind: str) -> None:
    (made,) = put(service, new())
    service.number([made.id]).wait()
    assert_healthy(service)
    command, key, *rest = damage
    service.store._sync_connection.call(command, f"{service.store.root(0)}:{key}", *rest)
    assert kind in findings(service, repair=True)
    findings(service, repair=True)
    assert_healthy(service)
    assert_consistent(service)


def test_a_refused_question_changes_nothing(service: Service) -> None:
    put(service, new())
    before = dump_keys(service.store)
    service.find_numbers([1, 2]).wait()
    assert service.holder("q", "key").wait() is None
    assert dump_keys(service.store) == before


def test_assigned_numbers_are_read_without_assigning_any(service: Service) -> None:
    (drawn,) = service.reserve_numbers("q").wait()
    plain, numbered, _ = put(service, new(), new(), new(id=drawn))
    given = service.number([numbered.id]).one().wait()
    before = dump_keys(service.store)
    assert service.assigned_number([plain.id, numbered.id, drawn]).wait() == [None, given, 1]
    assert dump_keys(service.store) == before
    (unknown,) = service.assigned_number([b"?" * 16]).wait()
    assert isinstance(unknown, UnknownJob)
