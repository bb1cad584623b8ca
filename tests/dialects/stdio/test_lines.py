"""Processor without I/O: bytes to lines, lines to messages, conversion of jobs, batches of messages."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.stdio.processor_client import (
    IDENTITY,
    W,
    add,
    idle,
    instant,
    job_uuid,
    message_line,
    worker_line,
    worker_uuid,
)
from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec, Job
from windlass.core.retry import ENDLESS
from windlass.core.states import State
from windlass.core.validation.bounds import ERROR_MAX
from windlass.dialects.stdio import instants, jobs
from windlass.dialects.stdio.envelope import Identity, encode_message, identity_from, parse_envelope
from windlass.dialects.stdio.lines import LineBuffer, TooLong
from windlass.dialects.stdio.logs import log_line
from windlass.dialects.stdio.message_batches import MESSAGES_MAX, split_into_batches
from windlass.dialects.stdio.messages import (
    NOT_ADDRESSED,
    AddJobMessage,
    DeleteJobMessage,
    ListMessage,
    Message,
    MessageReader,
    ProcessorOptions,
    TickMessage,
    WorkerMessage,
)

TERMS = ProcessorOptions()
NOW_MS = 1_800_000_000_000
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def read(
    text: str | bytes, *, now_ms: int | None = None, identity: Identity = IDENTITY, options: ProcessorOptions = TERMS
) -> Message:
    data = text.encode() if isinstance(text, str) else text
    return MessageReader(identity, options).read(
        data, now_ms if now_ms is not None else instants.parse_instant(instant())
    )


def error_of(text: str | bytes) -> str:
    """Return the text of the refusal. Empty: the line is valid."""
    try:
        read(text)
    except Refusal as refusal:
        return str(refusal)
    return ""


def read_report(text: str, **kw: Any) -> Any:
    message = read(text, **kw)
    assert isinstance(message, WorkerMessage)
    return message.report


def read_added_job(text: str, **kw: Any) -> Any:
    message = read(text, **kw)
    assert isinstance(message, AddJobMessage)
    return message.job


def stored_job(payload: Blob, **kw: Any) -> Job:
    """Return a job as the engine returns it."""
    plain: dict[str, Any] = {
        "id": bytes(range(16)), "state": State.DISPATCHED, "queue": "q", "name": "n", "payload": payload,
        "payload_is_whole": True, "priority": 0, "sequence": 1, "created_at_ms": NOW_MS, "run_at_ms": 0,
        "started_at_ms": NOW_MS, "ended_at_ms": None, "expires_at_ms": None, "lane": "", "unique": None,
        "retry": ENDLESS, "lease_ms": 0, "timeout_ms": 0, "result_ttl_ms": 0, "tags": (), "trace": "", "repeat": "",
        "schedule": "", "planned_at_ms": None, "parent": None, "is_held": False, "joins": False,
        "has_members": False, "on_failure": "collect", "callback": None, "limits": (), "attempt": 1, "revision": 1,
        "progress": 0.0, "is_cancel_requested": False, "is_overdue": False, "is_history": False, "worker": b"w" * 16,
        "lease_token": 1, "lease_deadline_at_ms": None,
    }  # fmt: skip
    return Job(**(plain | kw))


# Bytes to lines


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_are_the_same_however_they_are_cut(written: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(written)
    lines, found = LineBuffer(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        found += lines.feed(whole[:size])
        whole = whole[size:]
    assert found + lines.close() == [line.strip() for line in written if line.strip()]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_line_that_is_too_long_is_skipped(size: int) -> None:
    lines, found = LineBuffer(most=10), []
    data = b"first\n" + b"x" * 11 + b"\nlast one\n" + b"y" * 50
    for at in range(0, len(data), size):
        found += lines.feed(data[at : at + size])
    assert found + lines.close() == [b"first", TooLong(10), b"last one", TooLong(10)]


# Lines to messages


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "not a message"),
        (b"{", "not a message"),
        (b"[]", "not a message"),
        (b"5", "not a message"),
        (b'"text"', "not a message"),
        (b'{"payload": {}}', "topic"),
        (b'{"topic": 5, "payload": {}}', "topic"),
        (b'{"topic": null, "payload": {}}', "topic"),
        (b'{"topic": "default/job_queue/add_job"}', "must be an object"),
        (b'{"topic": "default/job_queue/add_job", "payload": null}', "must be an object"),
        (b'{"topic": "default/job_queue/add_job", "payload": "text"}', "must be an object"),
        (b'{"topic": "default/job_queue/add_job", "payload": {"x": "\xff"}}', "UTF-8"),
        (b'{"topic": "default/job_queue/add_job", "payload": {"x": "\\ud800"}}', "not a message|cannot be read"),
        (b'{"topic": "default/job_queue/add_job", "payload": {"x": "a\x00b"}}', "not a message"),
        (b'{"topic": "default/job_queue/add_job", "payload": {"x": 1e999}}', "cannot be read"),
        (b'{"topic": "default/job_queue/add_job", "payload": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "nested"),
        (b'{"topic": "default/job_queue/add_job", "payload": {"x": ' + b"9" * 10_000 + b"}}", "cannot be read"),
        (b'{"topic": "default/tick"} {"topic": "default/tick"}', "not a message"),
    ],
)  # fmt: skip
def test_a_bad_line_says_what_is_wrong_with_it(text: bytes, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        read(text)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_refusal(text: bytes) -> None:
    assert re.fullmatch(r"(\S.*\.)?", error_of(text), re.DOTALL)


@given(
    st.sampled_from(["add_job", "worker_idle", "job_accepted", "worker_busy", "job_finished", "list_queue_jobs"]), JSON
)
def test_any_payload_gives_a_message_or_a_refusal(word: str, payload: Any) -> None:
    assert re.fullmatch(r"(\S.*\.)?", error_of(message_line(f"job_queue/{word}", payload)), re.DOTALL)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"uuid": None}, "uuid"),
        ({"uuid": 5}, "uuid"),
        ({"uuid": ""}, "uuid"),
        ({"queue_name": ["q"]}, "queue_name"),
        ({"queue_name": "q" * 300}, "queue_name"),
        ({"queue_name": "a\u0000b"}, "queue_name"),
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"priority": 2.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": [5]}, "priority"),
        ({"data": "x" * 1024 * 1024}, "payload"),
    ],
)
def test_a_job_that_cannot_be_added_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        read(add(**fields))


def test_fields_that_are_missing_are_named() -> None:
    with pytest.raises(BadInput, match="no field uuid"):
        read(message_line("job_queue/add_job", {"queue_name": "q"}))
    with pytest.raises(BadInput, match="no field queue_name"):
        read(message_line("job_queue/worker_idle", {}))
    with pytest.raises(BadInput, match="no field uuid"):
        read(worker_line("job_accepted"))
    with pytest.raises(BadInput, match="service_uuid"):
        read(message_line("job_queue/worker_idle", {"queue_name": "q"}, ""))


@pytest.mark.parametrize(
    ("given_priority", "expected"), [(0, -5), (5, 0), (9, 4), ("0", -5), (" 7 ", 2), (None, 0), (3.0, -2)]
)
def test_priorities_are_shifted(given_priority: Any, expected: int) -> None:
    assert read_added_job(add(priority=given_priority)).priority == expected


def test_fields_of_an_added_job() -> None:
    job = read_added_job(add(7, command="resize", args=[1]), options=ProcessorOptions(attempts=3, keep_ms=500))
    assert (job.queue, job.name, job.unique, job.priority) == ("q", "resize", job_uuid(7), 0)
    assert (job.retry.tries, job.result_ttl_ms, job.unique_while_kept) == (3, 500, True)
    assert read_added_job(add()).name == "job"
    assert read_added_job(add(command=["not", "a", "name"])).name == "job"
    assert read_added_job(add(command="a\nb")).name == "job"


@pytest.mark.parametrize(
    ("word", "says_what"),
    [
        ("worker_idle", "idle"), ("request_job", "idle"), ("lease_job", "idle"), ("job_accepted", "accepted"),
        ("worker_progress", "progress"), ("worker_busy", "progress"), ("job_finished", "finished"),
        ("complete_job", "finished"),
    ],
)  # fmt: skip
def test_both_forms_of_a_topic_mean_the_same(word: str, says_what: str) -> None:
    payload = {"queue_name": "q", "uuid": job_uuid(1)}
    for topic in (f"job_queue/{word}", f"job_queue/workers/{worker_uuid(9)}/{word}"):
        said = read_report(message_line(topic, payload, W))
        assert (said.kind, said.queue, said.info.name, said.info.host) == (says_what, "q", W, "there")
        assert said.worker == parse_id(W)  # the uuid in the envelope rules
        assert said.unique == ("" if says_what == "idle" else job_uuid(1))


@pytest.mark.parametrize(
    "topic",
    [
        "job_queue/other", "job_queue", "", "add_job", "job_queue/workers/not-a-uuid/worker_idle",
        "job_queue/add_job/x",
        f"job_queue/workers/{W}/add_job", f"job_queue/workers/{W}/other", f"workers/{W}/worker_idle", "worker_idle",
    ],
)  # fmt: skip
def test_other_topics_are_ignored(topic: str) -> None:
    assert read(message_line(topic, {"queue_name": "q"})) == NOT_ADDRESSED


def test_namespaces() -> None:
    here = Identity(uuid="u", host="h", listener="a/b", publisher="c")
    assert read(add(), identity=here) == NOT_ADDRESSED
    assert isinstance(read(add().replace("default/", "a/b/"), identity=here), AddJobMessage)
    assert json.loads(encode_message(here, "x", b"{}", 0))["topic"] == "c/x"


@pytest.mark.parametrize("topic", ["job_queue/add_job", "tick", "job_queue/worker_idle", "job_queue/list_queue_jobs"])
def test_a_topic_without_namespace_is_accepted(topic: str) -> None:
    payload = {"queue_name": "q", "uuid": job_uuid(1)}
    for here in (IDENTITY, Identity(uuid="u", host="h", listener="a/b", publisher="c")):
        sent = message_line(topic, payload, created_at="")
        with_namespace = read(sent.replace("default/", f"{here.listener}/"), identity=here)
        assert read(sent.replace("default/", ""), identity=here) == with_namespace != NOT_ADDRESSED
        assert read(sent.replace("default/", "other/"), identity=here) == NOT_ADDRESSED
        assert read(sent.replace("default/", "/"), identity=here) == NOT_ADDRESSED


@pytest.mark.parametrize("topic", ["add_job", "worker_idle", "list_queue_jobs", "job_queue", "job_queue/other"])
def test_other_topics_without_namespace_are_ignored(topic: str) -> None:
    assert read(message_line(topic, {"queue_name": "q"}).replace("default/", "")) == NOT_ADDRESSED


def test_identity_comes_from_the_environment() -> None:
    names = ("SERVICE_NAME", "SERVICE_UUID", "SERVICE_HOST", "NAMESPACE_LISTENER", "NAMESPACE_PUBLISHER")
    found = identity_from(dict(zip(names, "nuhlp", strict=True)))
    assert found == Identity(name="n", uuid="u", host="h", listener="l", publisher="p")
    plain = identity_from({"SERVICE_NAME": ""})
    assert (plain.name, plain.listener, plain.publisher) == ("job_queue", "default", "default")
    assert plain.host
    assert plain.uuid != identity_from({}).uuid


@pytest.mark.parametrize("word", ["worker_idle", "job_finished"])
def test_a_worker_counts_as_idle_for_the_expiry_period_after_its_message(word: str) -> None:
    sent = worker_line(word, number=1)
    at_ms = instants.parse_instant(json.loads(sent)["created_at"])
    assert read_report(sent, now_ms=at_ms + 1_000).idle_ms == 8_000
    assert read_report(sent, now_ms=at_ms - 5_000).idle_ms == 9_000  # its clock is ahead
    assert read_report(sent, now_ms=at_ms + 8_999).idle_ms == 1
    assert read_report(sent, now_ms=at_ms + 9_000).idle_ms == 0
    assert read_report(sent, now_ms=at_ms, options=ProcessorOptions(tick_ms=5_000, expiry_ms=1_000)).idle_ms == 1_000


def test_an_idle_message_older_than_a_tick_triggers_no_dispatch() -> None:
    sent = idle()
    at_ms = instants.parse_instant(json.loads(sent)["created_at"])
    fresh, late, too_late = (read(sent, now_ms=at_ms + age_ms) for age_ms in (2_999, 3_000, 9_000))
    assert isinstance(fresh, WorkerMessage)
    assert isinstance(late, WorkerMessage)
    assert isinstance(too_late, WorkerMessage)
    assert [message.is_fresh for message in (fresh, late, too_late)] == [True, False, False]
    assert [list(split_into_batches([message])[0].queues) for message in (fresh, late, too_late)] == [["q"], [], []]
    other = read(idle(worker_uuid(2)), now_ms=at_ms)
    assert (
        len(split_into_batches([other, late])) == 2
    )  # the first one dispatches before the second makes its sender idle
    assert len(split_into_batches([late, other])) == 1
    assert fresh.warning == ""
    assert "more than a tick" in late.warning
    assert "too old" in too_late.warning


def test_a_missing_instant_means_now_and_an_invalid_instant_is_refused() -> None:
    assert read_report(message_line("job_queue/worker_idle", {"queue_name": "q"}, created_at="")).age_ms == 0
    with pytest.raises(BadInput, match="not an instant"):
        read(message_line("job_queue/worker_idle", {"queue_name": "q"}, created_at="yesterday"))


@pytest.mark.parametrize(
    ("fields", "progress", "warns"),
    [
        ({"progress": 0.25}, 0.25, False),
        ({"progress": 1}, 1.0, False),
        ({"status": {"progress": 0.5}}, 0.5, False),
        ({}, 0.0, False),
        ({"status": {}}, 0.0, False),
        ({"status": None}, 0.0, False),
        ({"progress": 50}, 1.0, True),
        ({"progress": -1}, 0.0, True),
    ],
)
def test_progress(fields: dict[str, Any], progress: float, warns: bool) -> None:
    message = read(worker_line("worker_progress", W, 1, **fields))
    assert isinstance(message, WorkerMessage)
    assert (message.report.progress, bool(message.warning)) == (progress, warns)


def test_progress_that_is_not_a_number_is_refused() -> None:
    for wrong in ("0.5", None, [1], True):
        with pytest.raises(BadInput, match="progress"):
            read(worker_line("worker_progress", W, 1, progress=wrong))


def test_the_message_on_the_end_is_the_result() -> None:
    assert json.loads(read_report(worker_line("job_finished", W, 1, answer=42)).result.data)["answer"] == 42
    message = read(worker_line("job_finished", W, 1, answer="x" * 1_048_576))
    assert isinstance(message, WorkerMessage)
    assert message.report.result is None
    assert "not kept" in message.warning


@pytest.mark.parametrize(
    "uuid", ["words_12-abcd-abcd-abcd-words_123456", W.upper(), "0" * 8 + "-0000-0000-0000-" + "0" * 12]
)
def test_workers_without_a_canonical_uuid_have_distinct_ids(uuid: str) -> None:
    said = read_report(idle(worker=uuid))
    assert said.info.name == uuid
    assert len(said.worker) == 16
    assert said.worker not in (bytes(16), read_report(idle()).worker)


def test_a_worker_of_several_queues_is_described_with_all_of_them() -> None:
    reader = MessageReader(IDENTITY, TERMS)
    for queue_name in ("b", "a", "b"):
        message = reader.read(idle(queue_name=queue_name).encode(), NOW_MS)
    assert isinstance(message, WorkerMessage)
    assert message.report.info.queues == ("a", "b")


def test_ticks_and_lists() -> None:
    assert read(message_line("tick", {"uuid": "x", "timestamp": 5})) == TickMessage()
    assert read('{"topic": "default/tick"}') == TickMessage()
    for topic in ("list_queue_jobs", "job_queue/list_queue_jobs"):
        assert read(message_line(topic, {"queue_name": "q"})) == ListMessage(
            "list_queue_jobs", "queued", "q", float("-inf"), float("inf")
        )
    window = {"queue_name": "q", "later_than": "1970-01-01T00:00:01Z", "earlier_than": "+inf"}
    assert read(message_line("list_leased_queue", window)) == ListMessage(
        "list_leased_queue", "dispatched", "q", 1_000, float("inf")
    )
    for wrong in (5, "soon", None):
        with pytest.raises(BadInput):
            read(message_line("list_leased_queue", {"queue_name": "q", "later_than": wrong}))


def test_a_deletion() -> None:
    for topic in ("job_queue/del_job", "del_job"):
        assert read(message_line(topic, {"uuid": "u", "queue_name": "q"})) == DeleteJobMessage("q", "u")
    for wrong in ({}, {"uuid": "u"}, {"queue_name": "q"}, {"uuid": 5, "queue_name": "q"}, None):
        with pytest.raises(BadInput):
            read(message_line("job_queue/del_job", wrong))


@pytest.mark.parametrize(
    ("fields", "then", "error"),
    [
        ({}, "auto", None),
        ({"error": None}, "auto", None),
        ({"error": "disk full"}, "auto", b'"disk full"'),
        ({"error": {"code": 1.50}, "should_retry": True}, "retry", b'{"code": 1.5}'),
        ({"message": "disk full", "final": True}, "final", b'{"message":"disk full"}'),
        ({"message": "m", "error": [1], "final": False}, "retry", b'{"message":"m","error":[1]}'),
        ({"should_retry": False}, "final", None),
        ({"should_retry": True, "final": False}, "retry", None),
        ({"should_retry": False, "final": True}, "final", None),
    ],
)
def test_a_failure(fields: dict[str, Any], then: str, error: bytes | None) -> None:
    named = {"queue_name": "q", "uuid": job_uuid(1)}
    for line in (worker_line("job_failed", W, 1, **fields), message_line("job_queue/job_failed", named | fields)):
        message = read(line)
        assert isinstance(message, WorkerMessage)
        report = message.report
        assert (report.kind, report.then, report.unique) == ("failed", then, job_uuid(1))
        assert report.idle_ms > 0
        assert (report.error.data if report.error else None) == error


@pytest.mark.parametrize(
    "fields",
    [
        {"should_retry": 1},
        {"final": "no"},
        {"should_retry": True, "final": True},
        {"should_retry": False, "final": False},
        {"message": 5},
    ],
)
def test_a_wrong_failure(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read(worker_line("job_failed", W, 1, **fields))


def test_an_error_that_is_too_long_is_not_kept() -> None:
    message = read(worker_line("job_failed", W, 1, error="x" * ERROR_MAX))
    assert isinstance(message, WorkerMessage)
    assert message.report.error is None
    assert str(ERROR_MAX) in message.warning


# Jobs there and back


@given(st.dictionaries(TEXTS, JSON, max_size=5), st.booleans())
def test_a_job_comes_back_as_it_was_written(fields: dict[str, Any], escapes: bool) -> None:
    wanted = {key: value for key, value in fields.items() if key not in ("priority", "dispatched_at")}
    wanted |= {"uuid": job_uuid(1), "queue_name": "q"}
    payload = json.dumps(wanted, ensure_ascii=escapes)
    text = '{"topic": "default/job_queue/add_job", "payload": ' + payload + "}"
    new = read_added_job(text)
    assert new.payload.data == payload.encode()
    given_out = jobs.encode_assignment(stored_job(new.payload, unique=new.unique))
    assert given_out.startswith(payload.encode()[:-1])
    back = json.loads(encode_message(IDENTITY, "t", given_out, NOW_MS))["payload"]
    assert back.pop("dispatched_at") == "2027-01-15T08:00:00.000Z"
    assert back == wanted


@pytest.mark.parametrize("before", [None, "then", {"a": 1}])
def test_an_old_dispatched_at_is_replaced(before: Any) -> None:
    payload = json.dumps({"dispatched_at": before, "uuid": "u", "n": 1.50, "big": 10**30}).encode()
    given_out = jobs.encode_assignment(stored_job(Blob(payload), unique="u"))
    assert given_out.count(b"dispatched_at") == 1
    assert json.loads(given_out) == json.loads(payload) | {"dispatched_at": "2027-01-15T08:00:00.000Z"}


@pytest.mark.parametrize(
    ("payload", "args"),
    [
        (Blob(b'{"a": 1}'), {"a": 1}),
        (Blob(b"\x93\x01\x02\x03", Codec.MSGPACK), [1, 2, 3]),
        (Blob(b"null"), None),
        (Blob(b'{"uuid": "another"}'), {"uuid": "another"}),
    ],
)
def test_a_job_of_another_dialect_gets_the_fields_of_a_processor_job(payload: Blob, args: Any) -> None:
    job = stored_job(payload, unique="key", priority=-100)
    assert json.loads(jobs.encode_assignment(job)) == {
        "uuid": format_id(job.id), "queue_name": "q", "priority": 0, "created_at": "2027-01-15T08:00:00.000Z",
        "command": "n", "args": args, "dispatched_at": "2027-01-15T08:00:00.000Z",
    }  # fmt: skip


def test_bytes_that_no_json_holds_are_base64() -> None:
    shown = json.loads(jobs.encode_assignment(stored_job(Blob(b"\xff", Codec.RAW))))
    assert (shown["args"], shown["args_base64"]) == (None, "/w==")


def test_messages_are_single_lines_with_the_whole_envelope() -> None:
    text = encode_message(IDENTITY, "job_queue/x", b'{"a":1}', NOW_MS)
    assert text.index(b"\n") == len(text) - 1
    assert json.loads(text) == {
        "topic": "default/job_queue/x", "service_name": "job_queue", "service_uuid": "processor-1",
        "service_host": "here", "created_at": "2027-01-15T08:00:00.000Z", "payload": {"a": 1},
    }  # fmt: skip
    assert parse_envelope(text).topic == "default/job_queue/x"


# Batches of messages


def batch_shapes(*texts: str) -> list[list[str]]:
    """Return, for each batch, the added jobs and the reports."""
    reader = MessageReader(IDENTITY, TERMS)
    batches = split_into_batches(reader.read(text.encode(), NOW_MS) for text in texts)
    return [
        [f"+{job.unique[-1]}" for job in batch.jobs]
        + [f"{report.info.name[-1]}:{report.kind}{report.unique[-1:]}" for report in batch.reports]
        + [f"-{deletion.uuid[-1]}" for deletion in batch.deletions]
        + ["tick"] * batch.has_tick
        + ["show"] * len(batch.list_requests)
        for batch in batches
    ]


def test_independent_messages_share_a_batch() -> None:
    a, b = worker_uuid(1), worker_uuid(2)
    texts = (add(1), idle(a), worker_line("job_accepted", b, 5), worker_line("job_finished", b, 5), add(2), idle(b))
    assert batch_shapes(*texts) == [["+1", "+2", "1:idle", "2:accepted5", "2:finished5", "2:idle"]]


def delete(number: int, queue_name: str = "q") -> str:
    return message_line("job_queue/del_job", {"uuid": job_uuid(number), "queue_name": queue_name})


def test_a_deletion_keeps_its_place() -> None:
    assert batch_shapes(delete(1), delete(2), idle()) == [["1:idle", "-1", "-2"]]
    assert batch_shapes(add(1), delete(1)) == [["+1"], ["-1"]]
    assert batch_shapes(add(1, "other"), delete(1)) == [["+1", "-1"]]
    fresh = message_line("job_queue/worker_idle", {"queue_name": "q"}, created_at="")
    assert batch_shapes(fresh, delete(1)) == [["1:idle"], ["-1"]]
    assert batch_shapes(fresh, delete(1, "other")) == [["1:idle", "-1"]]
    assert batch_shapes(delete(1), add(1)) == [["-1"], ["+1"]]
    assert batch_shapes(delete(1), worker_line("job_accepted", W, 1)) == [["-1"], ["1:accepted1"]]
    assert batch_shapes(worker_line("job_accepted", W, 1), delete(1)) == [["1:accepted1"], ["-1"]]


def test_messages_about_jobs_of_the_batch_start_a_new_batch() -> None:
    assert batch_shapes(add(1), worker_line("job_accepted", W, 1)) == [["+1"], ["1:accepted1"]]
    assert batch_shapes(idle(), worker_line("job_accepted", W, 7)) == [["1:idle"], ["1:accepted7"]]
    assert batch_shapes(worker_line("job_finished", W, 1), worker_line("job_accepted", W, 2)) == [
        ["1:finished1"],
        ["1:accepted2"],
    ]
    assert batch_shapes(idle(), idle()) == [["1:idle"], ["1:idle"]]
    assert batch_shapes(worker_line("job_finished", W, 1), add(1)) == [["1:finished1"], ["+1"]]
    assert batch_shapes(add(1), add(1)) == [["+1"], ["+1"]]


def test_ticks_and_lists_end_a_batch() -> None:
    tick, show = message_line("tick", {}), message_line("job_queue/list_queue_jobs", {"queue_name": "q"})
    assert batch_shapes(add(1), tick, add(2), show, message_line("other", {}), add(3)) == [
        ["+1", "tick"],
        ["+2", "show"],
        ["+3"],
    ]
    assert batch_shapes(message_line("other", {})) == []


def test_batches_are_bounded() -> None:
    reader = MessageReader(IDENTITY, TERMS)
    many = [reader.read(add(number).encode(), NOW_MS) for number in range(MESSAGES_MAX + 1)]
    assert [len(batch.jobs) for batch in split_into_batches(many)] == [MESSAGES_MAX, 1]
    large = [reader.read(add(number, data="x" * 900_000).encode(), NOW_MS) for number in range(3)]
    assert [len(batch.jobs) for batch in split_into_batches(large)] == [2, 1]


def test_control_characters_are_escapes_in_the_log() -> None:
    record = logging.makeLogRecord({"msg": "said \x9b31m\u202e", "levelname": "ERROR"})
    written = log_line(record).decode()
    assert written.rstrip("\n").isprintable()
    assert json.loads(written)["log_message"] == "said \x9b31m\u202e"
