"""The stored record: Lua reads what Python packs, and the reverse, to the last bit of every field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.helpers import new, put, read, take
from tests.support.engine_process import EngineProcess
from tests.support.legacy_names import allow_legacy_names
from windlass.core.job import Attempt, Blob, Codec, Flag, NewJob
from windlass.core.operations import Edit, Fail, LeaseRef, Update
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.validation.bounds import (
    DURATION_MAX,
    INT32_MAX,
    INT32_MIN,
    LANE_MAX,
    NAME_MAX,
    PAUSE_MAX,
    QUEUE_MAX,
    TAG_MAX,
    TAGS_MAX,
    TRACE_MAX,
    UINT32_MAX,
    UNIQUE_MAX,
)
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.records import attempt, record
from windlass.store.records.holder_ids import NO_ID
from windlass.store.scripts import module_source

UINT48_MAX = 2**48 - 1
CARRIED = (
    "queue", "name", "payload", "priority", "lane", "retry", "lease_ms", "timeout_ms", "result_ttl_ms", "tags", "trace",
    "repeat", "tombstone_ms",
)  # fmt: skip

LARGEST = NewJob(
    queue="q" * QUEUE_MAX,
    name="n" * NAME_MAX,
    payload=Blob(bytes(range(256)) * 4096, Codec.RAW),
    priority=INT32_MAX,
    run_at_ms=INSTANT_MAX,
    expires_at_ms=INSTANT_MAX,
    lane="l" * LANE_MAX,
    unique="u" * UNIQUE_MAX,
    retry=Backoff(UINT32_MAX, PAUSE_MAX, 1000.0, PAUSE_MAX, 1.0),
    lease_ms=FOREVER_MS,
    timeout_ms=DURATION_MAX,
    result_ttl_ms=FOREVER_MS,
    tags=tuple(chr(65 + at) * TAG_MAX for at in range(TAGS_MAX)),
    trace="t" * TRACE_MAX,
    repeat="FINISHED" + ", +1 DAY" * 30,
    retake=True,
    unique_while_kept=True,
    tombstone_ms=DURATION_MAX,
)
SMALLEST = NewJob(queue="q", name="n", payload=Blob(b""), priority=INT32_MIN)


def _carried(job: Any) -> dict[str, Any]:
    return {field: getattr(job, field) for field in CARRIED} | {"unique": job.unique or None}


@pytest.mark.parametrize("job", [SMALLEST, LARGEST], ids=["smallest", "largest"])
def test_a_job_comes_back_as_it_was_given(service: Service, job: NewJob) -> None:
    (answer,) = put(service, job)
    stored = read(service, answer.id)
    assert _carried(stored) == _carried(job)
    assert (stored.id, stored.attempt, stored.revision, stored.progress) == (answer.id, 0, 1, 0)
    assert stored.expires_at_ms == (job.expires_at_ms or None)
    if job.run_at_ms:
        assert stored.run_at_ms == job.run_at_ms


@pytest.mark.parametrize("job", [SMALLEST, LARGEST], ids=["smallest", "largest"])
def test_a_job_survives_every_lua_writer(service: Service, job: NewJob) -> None:
    (answer,) = put(service, job)
    service.edit([Edit(id=answer.id, run_at_ms=1)]).one().wait()  # rewrites everything but the payload
    (taken,) = take(service, job.queue, worker=b"\xff" * 16)  # the header alone
    assert _carried(taken) == _carried(job)
    service.update([Update(id=taken.id, token=taken.lease_token, progress=1)]).one().wait()
    payload = Blob(b"\0\xff" * 2000, Codec.MSGPACK)
    service.update([Update(id=taken.id, token=taken.lease_token, payload=payload)]).one().wait()
    stored = read(service, taken.id)
    assert _carried(stored) == _carried(job) | {"payload": payload}
    assert (stored.progress, stored.worker, stored.attempt, stored.revision) == (1, b"\xff" * 16, 1, 3)
    service.release([LeaseRef(taken.id, taken.lease_token)]).one().wait()
    assert _carried(read(service, taken.id)) == _carried(job) | {"payload": payload}


def texts(most_bytes: int, least: int = 0) -> st.SearchStrategy[str]:
    chars = st.characters(min_codepoint=32, exclude_categories=("Cs",))
    return st.text(chars, min_size=least, max_size=most_bytes // 4)


new_jobs = st.builds(
    NewJob,
    queue=texts(80, 1),
    name=texts(1000, 1),
    payload=st.builds(Blob, st.binary(max_size=3000), st.sampled_from(list(Codec))),
    priority=st.integers(INT32_MIN, INT32_MAX),
    run_at_ms=st.integers(0, INSTANT_MAX),
    expires_at_ms=st.integers(0, INSTANT_MAX),
    lane=texts(200),
    unique=texts(500),
    retry=st.builds(Backoff, st.integers(0, UINT32_MAX), st.integers(0, PAUSE_MAX), st.floats(1, 1000)),
    lease_ms=st.integers(0, DURATION_MAX),
    timeout_ms=st.integers(0, DURATION_MAX),
    result_ttl_ms=st.integers(0, DURATION_MAX),
    tags=st.lists(texts(120, 1), max_size=5).map(tuple),
    trace=texts(1000),
    repeat=st.sampled_from(("", "HOURLY", "Scheduled, +1 month, start of day")),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(job=new_jobs)
def test_any_job_comes_back_as_it_was_given(service: Service, job: NewJob) -> None:
    with allow_legacy_names():  # a record keeps every name that older versions stored
        (answer,) = service.enqueue([job]).wait()
    assert not isinstance(answer, Exception)
    stored = read(service, answer.id)
    assert _carried(stored) == _carried(job)
    assert stored.expires_at_ms == (job.expires_at_ms or None)
    service.delete([answer.id], even_leased=True).one().wait()


@pytest.mark.parametrize("worker", [b"", b"\xff" * 16])
@pytest.mark.parametrize("error", [None, Blob(b"", Codec.RAW), Blob(b"\0\xff" * 8192, Codec.MSGPACK)])
def test_an_attempt_comes_back_as_it_was_reported(service: Service, worker: bytes, error: Blob | None) -> None:
    put(service, new())
    (job,) = take(service, worker=worker)
    reason = "ü" * 32
    service.fail([Fail(id=job.id, token=job.lease_token, reason=reason, error=error)]).one().wait()
    timeline = service.job([job.id]).one().wait()
    assert timeline.job.ended_at_ms is not None
    assert timeline.attempts == [
        Attempt(
            attempt=1,
            started_at_ms=job.started_at_ms,
            ended_at_ms=timeline.job.ended_at_ms,
            worker=worker or None,
            reason=reason,
            error=error,
        )
    ]


# The two layouts, side by side

Lua = Callable[..., Any]


@pytest.fixture(scope="module")
def lua(shared_engine: EngineProcess) -> Iterator[Lua]:
    connection = SyncReconnectingConnection(parse_url(shared_engine.unix_url))
    source = module_source("jobs.record")
    names = "HEADER|STRINGS|LAYOUT|HEADER_BYTES|POLICY|FORMAT|NO_ID|FOREVER_MS"
    found = re.findall(rf"^(?:local |record\.)((?:{names}) = .*)", source, re.MULTILINE)
    layouts = "\n".join("local " + line.replace("record.", "") for line in found)
    yield lambda script, *arguments: connection.call("EVAL", f"{layouts}\n{script}", 0, *arguments)
    connection.close()


def test_the_layouts_have_the_same_size(lua: Lua) -> None:
    assert lua("return {struct.size(HEADER), HEADER_BYTES, FORMAT}") == [
        record.HEADER_BYTES, record.HEADER_BYTES, record.FORMAT
    ]  # fmt: skip
    assert lua("return NO_ID") == NO_ID
    assert lua("return string.format('%.0f', FOREVER_MS)") == b"%d" % FOREVER_MS


@pytest.mark.parametrize("is_largest", [True, False])
def test_python_reads_every_header_field_that_lua_writes(lua: Lua, is_largest: bool) -> None:
    numbers = [UINT48_MAX - at if is_largest else at for at in range(7)]  # all different, so that a mix-up shows
    small = [2**32 - 1 - at if is_largest else at for at in range(3)]
    priority = INT32_MAX if is_largest else INT32_MIN
    state = State.RUNNING
    strings = record.pack(new(repeat="HOURLY" if is_largest else ""), bytes(16), 0, 0)[16 + record.HEADER_BYTES :]
    header = lua(
        "local a = {} for i = 1, #ARGV - 1 do a[i] = tonumber(ARGV[i]) end\n"
        "return struct.pack(HEADER, FORMAT, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],"
        " ARGV[#ARGV], a[11], a[12], a[13], a[14])",
        int(state),
        0x7FFFFFFF & ~int(Flag.MSGPACK | Flag.HAS_NOTE) if is_largest else 0,
        priority,
        *numbers,
        *small,
        record.HEADER_BYTES + len(strings) - len(b"null"),
        b"\xfe" * 16,
    )
    job = record.unpack(bytes(16) + header + strings)
    assert (job.state, job.priority) == (state, priority)
    times = [job.sequence, job.created_at_ms, job.run_at_ms, job.started_at_ms, job.ended_at_ms, job.lease_token]
    assert [value or 0 for value in [*times, job.lease_deadline_at_ms]] == numbers
    assert [job.attempt, job.revision, round(job.progress * 1_000_000)] == small
    assert (job.is_cancel_requested, job.is_overdue, job.is_history) == (is_largest,) * 3
    assert (job.worker, job.payload.data) == (b"\xfe" * 16, b"null")


@pytest.mark.parametrize("job", [SMALLEST, LARGEST], ids=["smallest", "largest"])
def test_lua_reads_every_field_that_python_packs(lua: Lua, job: NewJob) -> None:
    packed = record.pack(job, b"i" * 16, job.run_at_ms, job.expires_at_ms)
    assert packed[:16] == b"i" * 16
    fields = lua(
        "local function text(value) return type(value) == 'number' and string.format('%.0f', value) or value end\n"
        "local found = {struct.unpack(LAYOUT, ARGV[1])}\n"
        "for i, value in ipairs(found) do found[i] = text(value) end\n"
        "return found",
        packed[16:],
    )
    *_, next_position = fields
    (format_, state, flags, priority, sequence, created, ready, *leased, attempt, revision, progress, head) = fields[
        :16
    ]
    assert [format_, state, priority, ready] == [b"1", b"0", b"%d" % job.priority, b"%d" % job.run_at_ms]
    flagged = Flag.RETAKE | Flag.UNIQUE_WHILE_KEPT | Flag.REPEATS | Flag.LEAVES_TOMBSTONE
    expected = int(job.payload.codec) | (flagged if job.retake else 0)
    assert int(flags) == expected
    assert [sequence, created, *leased[:4], attempt, progress] == [b"0"] * 8
    assert (leased[4], revision) == (NO_ID, b"1")
    assert int(head) == int(next_position) - 1 == len(packed) - 16 - len(job.payload.data)
    queue, name, lane, unique, tags, links, _extras = fields[18:25]
    strings = [text.decode() for text in (queue, name, lane, unique)]
    assert strings == [job.queue, job.name, job.lane, job.unique]
    assert (tags.decode().split("\0"), links) == (list(job.tags) or [""], b"")
    policy = lua(
        "local found = {struct.unpack(POLICY, ARGV[1])}\n"
        "for i, value in ipairs(found) do found[i] = string.format('%.0f', value) end\n"
        "return found",
        fields[17] or bytes(28),
    )
    numbers = (job.retry.tries, job.lease_ms, job.timeout_ms, job.result_ttl_ms, job.expires_at_ms)
    assert [int(value) for value in policy[:5]] == list(numbers)


@pytest.mark.parametrize("blob", [None, *(Blob(data, codec) for codec in Codec for data in (b"", b"\0", b"x" * 1000))])
def test_a_blob_comes_back(blob: Blob | None) -> None:
    assert attempt.unpack_blob(attempt.pack_blob(blob)) == blob
