"""Fast paths of a worker's commands encode and read the same as the general path: taken jobs and reported ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.core.states import State
from windlass.core.validation.bounds import RESULT_MAX
from windlass.core.validation.lease_reports import check_finish, check_finishes
from windlass.store.commands.reports import FinishReport, FinishWithNextRun, accept_one
from windlass.store.commands.take import finish_and_take
from windlass.store.connection.connection import pack
from windlass.store.records import record
from windlass.store.records.leased_record import unpack_leased

JOBS = [
    NewJob(queue="q", name="n", payload=Blob(b"")),
    NewJob(queue="q", name="n", payload=Blob(b"\x81\xa1a\x01", Codec.MSGPACK), timeout_ms=5, result_ttl_ms=7, lane="l"),
    NewJob(queue="q", name="n", payload=Blob(b"{}", Codec.RAW), tags=("t" * 200,) * 5, priority=-3),  # long
    NewJob(queue="q", name="n", payload=Blob(b"{}"), repeat="FINISHED, +1 DAY"),
]
STATE_AT, NUMBERS, ENDED, LEASE, REST = 17, slice(26, 50), slice(50, 56), slice(56, 68), slice(68, 96)


def _entries(job: NewJob, count: int) -> list[bytes]:
    """Return entries with headers as the engine may fill them in, more or less like the previous entry."""
    chance, found = random.Random(0), []
    for at in range(count):
        entry = bytearray(record.pack(job, chance.randbytes(16), 1_000, 0))
        entry[STATE_AT] = chance.choice([State.RUNNING, State.DISPATCHED, State.RUNNING, State.QUEUED, State.FINISHED])
        entry[NUMBERS], entry[LEASE] = chance.randbytes(24), chance.choice([chance.randbytes(12), bytes(12)])
        if at % 3:
            entry[ENDED], entry[REST] = chance.choice([bytes(6), b"\0\0\0\0\0\1"]), bytes(15) + chance.randbytes(13)
        found.append(bytes(entry))
    return found


@pytest.mark.parametrize("job", JOBS, ids=["bare", "simple", "long", "repeating"])
def test_a_taken_job_is_read_like_any_other(job: NewJob) -> None:
    for entry in _entries(job, 60):
        for _ in range(2):
            assert unpack_leased(entry) == record.unpack(entry)


ID = bytes(range(16))
SIMPLE = [Finish(ID, 1), Finish(ID[::-1], 2**48 - 1), Finish(ID, 0)]


@pytest.mark.parametrize(
    ("finishes", "failures"),
    [
        ([], []),
        (SIMPLE, []),
        ([Finish(ID, 12, Blob(b"r" * 300, Codec.MSGPACK)), *SIMPLE, Finish(ID, 9, Blob(b""))], []),
        ([*SIMPLE, Finish(ID, 3, ignore_repeat=True)], []),
        ([*SIMPLE, FinishWithNextRun(Finish(ID, 3), 77, 2)], []),
        (SIMPLE, [Fail(id=ID, token=5, reason="error", error=Blob(b"e"))]),
    ],
    ids=["nothing", "simple", "results", "ignores repeat", "next run", "failures"],
)
def test_finish_and_take_is_encoded_like_its_arguments(
    finishes: Sequence[FinishReport], failures: Sequence[Fail]
) -> None:
    for queues in (("a",), ("a", "ü" * 9)):
        command = finish_and_take(Take(queues=queues, most=7, worker=ID), queues, 0, finishes, failures)
        prefix = ("FCALL", "finish_and_take", 1, "root", 0)
        assert command.encode(prefix) == pack((*prefix, *command.args))


@pytest.mark.parametrize("token", [0, 7, 2**48 - 1])
def test_accept_is_encoded_like_its_arguments(token: int) -> None:
    command, prefix = accept_one(ID, token, 0), ("FCALL", "accept", 1, "root", -5)
    assert command.encode(prefix) == pack((*prefix, *command.args))


@pytest.mark.parametrize(
    "wrong",
    [
        Finish(ID[1:], 1),
        Finish("x" * 16, 1),  # type: ignore[arg-type]
        Finish(ID, -1),
        Finish(ID, 2**48),
        Finish(ID, True),
        Finish(ID, 1, ignore_repeat=0),  # type: ignore[arg-type]
        Finish(ID, 1, b"bare"),  # type: ignore[arg-type]
        Finish(ID, 1, Blob(bytes(RESULT_MAX + 1))),
        Fail(id=ID, token=1),
    ],
)
def test_the_fast_check_refuses_what_the_full_check_refuses(wrong: Any) -> None:
    check_finishes([*SIMPLE, Finish(ID, 1, Blob(b"result"))])
    with pytest.raises((BadInput, TooLarge)) as fast_check:
        check_finishes([*SIMPLE, wrong])
    with pytest.raises((BadInput, TooLarge)) as full_check:
        check_finish(wrong)
    assert str(fast_check.value) == str(full_check.value)
