"""find_cause, explain and failures: a job that ended because of another job leads to the job that failed first."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from windlass.core.errors import BadInput
from windlass.core.explain.reasons import Ended
from windlass.core.ids import format_id
from windlass.core.job import Blob
from windlass.core.operations import Fail
from windlass.service import Service
from windlass.service.jobs import CAUSE_STEPS_MAX

ERROR = Blob(b'{"type":"CardError","message":"declined"}')


def chain(service: Service, *names: str, queue: str = "") -> list[bytes]:
    """Enqueue jobs that wait for each other, each in the queue of its name."""
    queues = [queue or name for name in names]
    ids = [service.store.new_id(own) for own in queues]
    put(
        service,
        *(
            new(own, name, id=job_id, after=(ids[at - 1],) if at else ())
            for at, (own, name, job_id) in enumerate(zip(queues, names, ids, strict=True))
        ),
    )
    return ids


def fail_next(service: Service, queue: str) -> bytes:
    (job,) = take(service, queue)
    service.fail([Fail(id=job.id, token=job.lease_token, error=ERROR)]).one().wait()
    return job.id


def ended(service: Service, job_id: bytes, queues: tuple[str, ...] = ()) -> Ended:
    found = service.explain_within(job_id, queues).wait()
    reason = found.reasons[0]
    assert isinstance(reason, Ended)
    assert found.summary == reason.sentence
    return reason


def test_the_first_job_of_a_chain_is_the_cause_of_all_others(service: Service) -> None:
    charge, ship, notify = chain(service, "charge", "ship", "notify")
    fail_next(service, "charge")
    for consequence in (ship, notify):
        cause = service.find_cause(consequence).wait()
        assert cause is not None
        assert (cause.job.id, cause.attempts[-1].error) == (charge, ERROR)
    assert service.find_cause(charge).wait() is None
    assert set(service.find_causes([notify, charge, ship]).wait()) == {notify, ship}


def test_a_job_that_has_not_ended_or_does_not_exist_has_no_cause(service: Service) -> None:
    _, ship = chain(service, "charge", "ship")
    assert service.find_cause(ship).wait() is None
    assert service.find_cause(bytes(16)).wait() is None
    with pytest.raises(BadInput):
        service.find_cause(b"short")
    with pytest.raises(BadInput):
        service.find_causes([b"short"])


def test_a_cancelled_job_is_a_cause(service: Service) -> None:
    charge, ship = chain(service, "charge", "ship")
    service.cancel([charge]).wait()
    cause = service.find_cause(ship).wait()
    assert cause is not None
    assert cause.job.id == charge
    assert "It was cancelled at" in ended(service, ship).sentence
    assert f'because "charge" (job {format_id(charge)}) was cancelled' in ended(service, ship).sentence


def test_the_cause_is_gone(service: Service) -> None:
    charge, ship, notify = chain(service, "charge", "ship", "notify")
    fail_next(service, "charge")
    service.delete([charge]).wait()
    assert service.find_cause(ship).wait() is None
    nearest = service.find_cause(notify).wait()
    assert nearest is not None
    assert nearest.job.id == ship
    assert ": member_failed; it is kept" in ended(service, ship).sentence


def test_a_walk_is_bounded(service: Service) -> None:
    ids = chain(service, *(f"n{number}" for number in range(CAUSE_STEPS_MAX + 10)), queue="q")
    fail_next(service, "q")
    cause = service.find_cause(ids[-1]).wait()
    assert cause is not None
    assert cause.job.id == ids[-1 - CAUSE_STEPS_MAX]
    exact = service.find_cause(ids[CAUSE_STEPS_MAX]).wait()
    assert exact is not None
    assert exact.job.id == ids[0]


def test_explain_names_the_cause(service: Service) -> None:
    charge, _, notify = chain(service, "charge", "ship", "notify")
    fail_next(service, "charge")
    reason = ended(service, notify)
    assert reason.cause is not None
    assert (reason.cause.id, reason.cause.queue, reason.cause.name) == (format_id(charge), "charge", "charge")
    assert (reason.cause.state, reason.cause.error) == ("failed", "CardError: declined")
    words = f'because "charge" (job {format_id(charge)}) failed: CardError: declined; it is kept'
    assert reason.sentence.startswith("It failed at ")
    assert words in reason.sentence
    assert ended(service, charge).cause is None


def test_a_cause_in_another_queue_is_hidden(service: Service) -> None:
    charge, _, notify = chain(service, "charge", "ship", "notify")
    fail_next(service, "charge")
    reason = ended(service, notify, ("notify",))
    assert "because of a job of another queue;" in reason.sentence
    for secret in ("charge", "declined", "CardError", format_id(charge)):
        assert secret not in str(reason)
    assert ended(service, notify, ("notify", "charge")).cause == ended(service, notify).cause


# Failure groups


def test_consequences_are_folded_into_the_group_of_their_cause(service: Service) -> None:
    for _ in range(2):
        chain(service, "charge", "ship", "notify")
        fail_next(service, "charge")
    put(service, new("ship", "pack"))
    fail_next(service, "ship")
    found = service.failures().wait()
    assert [(group.name, group.count, group.consequences) for group in found.groups] == [
        ("charge", 2, 4),
        ("pack", 1, 0),
    ]
    assert (found.other_consequences, found.looked_at) == (0, 7)


def test_consequences_of_causes_that_are_not_examined(service: Service) -> None:
    chain(service, "charge", "ship", "notify")
    fail_next(service, "charge")
    only_ship = service.failures(queue="ship").wait()
    assert (only_ship.groups, only_ship.other_consequences) == ([], 1)
    visible = service.failures(queues=("ship", "notify")).wait()
    assert (visible.groups, visible.other_consequences) == ([], 2)


def test_a_parent_whose_child_failed_is_a_failure_of_its_own(service: Service) -> None:
    put(service, new("p", "parent", on_failure="fail"))
    (parent,) = take(service, "p")
    put(service, new("c", "child", parent=parent.id))
    child = fail_next(service, "c")
    service.fail([Fail(id=parent.id, token=parent.lease_token, error=ERROR)]).wait()
    assert sorted((group.name, group.count) for group in service.failures().wait().groups) == [
        ("child", 1),
        ("parent", 1),
    ]
    assert service.find_cause(child).wait() is None
