"""Jobs found by any name: id, number, download id, unique key; in several queues and partitions, within bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.helpers import new, put, take
from tests.support.namespace import dump_keys
from windlass.core.ids import download_id_of_number, format_id
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.job_aliases import JobAliases
from windlass.core.operations import Finish
from windlass.service import Service
from windlass.service.aliases import lookup
from windlass.store.commands.command import EngineTime
from windlass.store.store import Store

UUID = "6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0001"
DOWNLOAD_ID = "aB3dE5gH7jK9mN"


def make(service: Service, *jobs: NewJob) -> list[bytes]:
    return [made.id for made in put(service, *jobs)]


def find(service: Service, alias: str, queue: str = "") -> list[bytes]:
    found = service.find(alias, queue=queue).wait()
    assert found.is_complete
    return [job.id for job in found.jobs]


def processor_job(queue: str = "q", uuid: str = UUID) -> NewJob:
    return new(queue, unique=uuid, unique_while_kept=True, payload=Blob(b'{"uuid": "%s"}' % uuid.encode()))


def test_every_name_finds_its_job(service: Service) -> None:
    (drawn,) = service.reserve_numbers("bedrock").wait()
    plain, added, ordered, numbered, foreign = make(
        service, new(), processor_job(), new("downloads", unique=DOWNLOAD_ID), new("bedrock", id=drawn),
        new("downloads", unique="order-7"),
    )  # fmt: skip
    number, later = service.number([numbered, foreign]).wait()
    for alias, job_id in [
        (format_id(plain), plain),
        (format_id(plain).upper(), plain),
        (format_id(plain).replace("-", ""), plain),
        (UUID, added),
        (format_id(added), added),
        (DOWNLOAD_ID, ordered),
        (str(number), numbered),
        (str(later), foreign),
        (download_id_of_number(later), foreign),  # type: ignore[arg-type]
        ("order-7", foreign),
    ]:
        assert find(service, alias) == [job_id], alias


def test_names_that_mean_nothing(service: Service) -> None:
    make(service, new(unique="key"))
    for alias in ("?", "KEY", "77", str(2**63), download_id_of_number(77), format_id(b"?" * 16), "ä" * 200, "*", "a b"):
        assert find(service, alias) == []


def test_a_key_of_several_queues_finds_all_and_a_queue_selects_one(service: Service) -> None:
    ids = make(service, *(new(queue, unique="7") for queue in ("a", "b", "c")))
    numbered = make(service, new("bedrock"))
    while service.number(numbered).one().wait() != 7:
        numbered = make(service, new("bedrock"))
    assert set(find(service, "7")) == {*ids, *numbered}
    assert find(service, "7", "b") == [ids[1]]
    assert find(service, "7", "bedrock") == numbered
    assert find(service, format_id(ids[0]), "b") == []
    assert find(service, "7", "nowhere") == []


def test_a_job_is_found_once(service: Service) -> None:
    (job_id,) = make(service, new())
    job = service.job([job_id]).one().wait().job
    (twice,) = make(service, new("other", id=b"x" * 16, unique=format_id(b"x" * 16)))
    assert find(service, format_id(twice)) == [twice]
    assert find(service, job.key) == [job_id]


def test_patterns_hide_jobs_of_other_queues(service: Service) -> None:
    mine, theirs = make(service, new("mine", unique="key"), new("theirs", unique="key"))
    number = service.number([theirs]).one().wait()
    for alias, found in [("key", [mine]), (format_id(theirs), []), (str(number), []), (format_id(mine), [mine])]:
        assert [job.id for job in service.find_within(alias, ("mi*",)).wait().jobs] == found
    assert service.find_within("key", ("mi*",), queue="theirs").wait().jobs == []


def test_an_ended_job_is_found_while_it_is_kept(service: Service) -> None:
    put(service, new(unique="kept", unique_while_kept=True, result_ttl_ms=60_000), new(unique="gone"))
    for job in take(service, most=2):
        service.finish([Finish(job.id, job.lease_token)]).wait()
        assert len(find(service, job.key)) == (job.unique == "kept")
    assert (len(find(service, "kept")), len(find(service, "gone"))) == (1, 0)


def test_a_search_changes_nothing(service: Service) -> None:
    (job_id,) = make(service, new(unique="7"))
    before = dump_keys(service.store)
    find(service, "7")
    service.aliases([service.job([job_id]).one().wait().job]).wait()
    assert dump_keys(service.store) == before


def test_names_in_several_partitions(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    queues = [f"q{at}" for at in range(12)]
    ids = make(service, *(new(queue, unique="key") for queue in queues))
    assert {service.store.partition_of_job(job_id) for job_id in ids} == {0, 1, 2, 3}
    assert set(find(service, "key")) == set(ids)
    for job_id, number in zip(ids, service.number(ids).wait(), strict=True):
        assert find(service, str(number)) == [job_id]
        assert find(service, format_id(job_id)) == [job_id]
        named = service.aliases([service.job([job_id]).one().wait().job]).one().wait()
        assert named == JobAliases(number=number)  # type: ignore[arg-type]


def test_bounds_are_reported(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = make(service, *(new(f"q{at}", unique="key") for at in range(6)))
    monkeypatch.setattr(lookup, "MATCHES_MAX", 4)
    found = service.find("key").wait()
    assert (len(found.jobs), found.is_complete) == (4, False)
    monkeypatch.setattr(lookup, "QUEUES_SEARCHED_MAX", 2)
    found = service.find("key").wait()
    assert (len(found.jobs), found.is_complete) == (2, False)
    assert find(service, "key", "q5") == [ids[5]]
    (downloaded,) = make(service, new("downloads", unique="key"))
    assert downloaded in [job.id for job in service.find("key").wait().jobs], "the downloader's queue comes first"


def test_few_commands(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    make(service, *(new(f"q{at}", unique="key") for at in range(40)))
    sent: list[str] = []
    run = service.store.run_sync

    def counted(flow: object) -> object:
        def watched() -> object:
            answer = None
            while True:
                try:
                    command = flow.send(answer)  # type: ignore[attr-defined]
                except StopIteration as end:
                    return end.value
                effects = command if isinstance(command, list) else [command]
                sent.extend(one.operation for one in effects if not isinstance(one, EngineTime))
                answer = yield command

        return run(watched())  # type: ignore[arg-type]

    monkeypatch.setattr(service.store, "run_sync", counted)
    assert len(find(service, "key")) == 40
    assert sent == ["queues", "holder", "job"]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (new("q", unique="key"), JobAliases()),
        (processor_job(), JobAliases(processor_uuid=UUID)),
        (new("downloads", unique=DOWNLOAD_ID), JobAliases(download_id=DOWNLOAD_ID)),
        (new("q", unique=DOWNLOAD_ID), JobAliases()),
        (new("downloads", unique="order-7"), JobAliases()),
        (new("q", unique="u", payload=Blob(b"\x81\xa4uuid\xa1u", Codec.MSGPACK)), JobAliases()),
    ],
)
def test_the_names_of_a_job(service: Service, job: NewJob, expected: JobAliases) -> None:
    (job_id,) = make(service, job)
    stored = service.job([job_id]).one().wait().job
    assert service.aliases([stored]).one().wait() == expected


def test_the_names_that_come_with_a_number(service: Service) -> None:
    (job_id,) = make(service, new("downloads"))
    stored = service.job([job_id]).one().wait().job
    assert service.aliases([stored]).one().wait() == JobAliases()
    number = service.number([job_id]).one().wait()
    named = service.aliases([stored]).one().wait()
    assert named == JobAliases(number=number, download_id=download_id_of_number(number))
    assert find(service, named.download_id) == [job_id]
