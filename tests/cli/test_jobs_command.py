"""windlass jobs: lists, details, and actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.service.helpers import counts, new, put, read, take
from tests.support.console import run, run_ok
from tests.support.legacy_names import allow_legacy_names
from windlass.cli import job_selection
from windlass.core.ids import format_id
from windlass.core.job import Blob, Callback, Codec
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, Take, Update
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.service import jobs as service_jobs
from windlass.store import recent_pages
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
UNKNOWN = "01a1e21f-2249-7000-aad3-893cc7fff097"
TRACEBACK = 'Traceback (most recent call last):\n  File "mail.py", line 12, in send\nValueError: no such order\n'
ERROR = Blob(
    msgspec.msgpack.encode({"type": "ValueError", "message": "no such order", "traceback": TRACEBACK}), Codec.MSGPACK
)


def fail(service: Service, queue: str = "q", then: str = "final", error: Blob | None = ERROR) -> bytes:
    (job,) = take(service, queue)
    service.fail([Fail(id=job.id, token=job.lease_token, then=then, error=error)]).wait()  # type: ignore[arg-type]
    return job.id


def fill(service: Service) -> None:
    """Two queues, several states, each job a second after the last."""
    order: dict[str, Any] = {"tags": ("shop",), "payload": Blob(b'{"order_id": 7}'), "index": ("order_id",)}
    for job in (
        new("a", "send", **order), new("a", "send"), new("a", "report", delay_ms=60_000), new("b", "send", **order),
    ):  # fmt: skip
        put(service, job)
        service.store.clock_offset_ms += 1_000
    take(service, "a")


def names(service: Service, *options: str) -> list[tuple[str, str, str]]:
    return [(row[1], row[2], row[3]) for row in run_ok(service, "jobs", "ls", *options).rows]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "a send running, b send queued, a report scheduled, a send queued"),
        (("--oldest",), "a send running, a send queued, a report scheduled, b send queued"),
        (("--newest", "--queue", "a"), "a send running, a report scheduled, a send queued"),
        (("-q", "a", "-q", "b", "-s", "queued", "--oldest"), "a send queued, b send queued"),
        (("--queue", "b"), "b send queued"),
        (("--state", "queued"), "b send queued, a send queued"),
        (("-s", "scheduled", "-s", "running", "-q", "a"), "a report scheduled, a send running"),
        (("--tag", "shop"), "a send running, b send queued"),
        (("--tag", "shop", "--state", "queued"), "b send queued"),
        (("--tag", "shop", "--queue", "a"), "a send running"),
        (("--where", "order_id=7"), "a send running, b send queued"),
        (("--where", "order_id=7", "--state", "queued"), "b send queued"),
        (("--where", "order_id=7", "--queue", "a", "--tag", "shop"), "a send running"),
        (("--where", "order_id=7", "--where", "order_id=8"), ""),
        (("--name", "rep*"), "a report scheduled"),
        (("--since", "1h", "--name", "rep*"), "a report scheduled"),
        (("--since", "2100-01-01T00:00Z"), ""),
    ],
)
def test_ls_filters(service: Service, options: tuple[str, ...], expected: str) -> None:
    fill(service)
    found = [" ".join(row) for row in names(service, *options)]
    if "--tag" in options or "--where" in options:
        found.sort()  # in a list by tag or field, jobs of the same millisecond are in any order
    assert ", ".join(found) == expected


def test_ls_in_a_pipe_is_tab_separated_unshortened_and_without_a_heading(service: Service) -> None:
    (made,) = put(service, new("a", "n" * 200, priority=-3, tags=("x", "y"), retry=Backoff(tries=4)))
    ((key, queue, name, state, priority, attempt, created, _, tags),) = run_ok(service, "jobs", "ls").rows
    assert (key, queue, name, state) == (format_id(made.id), "a", "n" * 200, "queued")
    assert (priority, attempt, tags) == ("-3", "0/4", "x,y")
    assert created.endswith("Z")


def test_ls_by_a_field_that_is_not_indexed_says_how_to_index_it(service: Service) -> None:
    fill(service)
    done = run(service, "jobs", "ls", "--where", "customer=7")
    assert done.code == 1
    assert "a: order_id; b: order_id" in done.err
    assert "--index customer" in done.err


def test_ls_notes_omitted_rows(service: Service) -> None:
    put(service, *(new() for _ in range(60)))
    done = run_ok(service, "jobs", "ls")
    assert len(done.rows) == 50
    assert "--limit 0" in done.err
    everything = run_ok(service, "jobs", "ls", "--limit", "0")
    assert (len(everything.rows), everything.err) == (60, "")
    exactly = run_ok(service, "jobs", "ls", "--limit", "60")
    assert (len(exactly.rows), exactly.err) == (60, "")


def test_ls_has_what_runs_and_failed_on_top(service: Service) -> None:
    order = ("failed first", "failed last", "runs first", "runs last", "queued", "scheduled", "newest")
    for name in order:
        put(service, new(name=name, delay_ms=600_000 if name == "scheduled" else 0))
        service.store.clock_offset_ms += 1_000
    for at, job in enumerate(take(service, most=1)[0] for _ in range(4)):
        service.store.clock_offset_ms += 1_000
        if at < 2:
            service.fail([Fail(id=job.id, token=job.lease_token)]).wait()
    rows = [row[2] for row in run_ok(service, "jobs", "ls").rows]
    assert rows == ["runs last", "runs first", "failed last", "failed first", "newest", "scheduled", "queued"]
    rows = [row[2] for row in run_ok(service, "jobs", "ls", "--limit", "5").rows]
    assert rows == ["runs last", "failed last", "newest", "scheduled", "queued"], "a third of the rows each"
    assert [row[2] for row in run_ok(service, "jobs", "ls", "-s", "running").rows] == ["runs last", "runs first"]
    assert [row[2] for row in run_ok(service, "jobs", "ls", "-s", "failed", "--oldest").rows] == list(order[:2])
    assert [row[2] for row in run_ok(service, "jobs", "ls", "--oldest").rows] == list(order)


def test_ls_by_a_text_in_the_payload(service: Service) -> None:
    service.configure("kept", {"history_length": 5}).wait()
    put(service, new("kept", "done", payload=Blob(b'{"city": "Athens"}')))
    (job,) = take(service, "kept")
    service.finish([Finish(job.id, job.lease_token)]).wait()
    put(
        service, new("a", payload=Blob(b'{"city": "Athens"}'), tags=("t",)), new("b", payload=Blob(b'{"city": "Rome"}'))
    )
    assert sorted(names(service, "--text", '"CITY":"athens')) == [("a", "n", "queued"), ("kept", "done", "finished")]
    assert names(service, "--text", "rome", "--queue", "b") == [("b", "n", "queued")]
    assert names(service, "--text", "athens", "--tag", "t") == [("a", "n", "queued")]
    assert names(service, "--text", "sparta") == []


def test_ls_says_how_far_it_looked(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_selection, "LOOKED_AT_MAX", 100)
    monkeypatch.setattr(recent_pages, "LOOKED_AT_MAX", 100)
    put(service, *(new(name="hay") for _ in range(300)), new(name="needle", payload=Blob(b'"x"'), delay_ms=900_000))
    done = run_ok(service, "jobs", "ls", "--text", "nothing")
    assert (done.rows, done.err) == ([], "Looked at the newest 100 jobs only: --limit 0 looks at all.\n")
    assert "Looked at the oldest" in run_ok(service, "jobs", "ls", "--text", "nothing", "--oldest").err
    assert run_ok(service, "jobs", "ls", "--text", "nothing", "--limit", "0").err == ""
    assert run_ok(service, "jobs", "ls", "--limit", "1").err.startswith("Only the first 1 job:")


def test_ls_of_more_queues_than_a_list_covers_says_so(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_jobs, "MERGED_MAX", 2)
    put(service, *(new(f"q{at}") for at in range(3)))
    assert "Not all queues were read" in run_ok(service, "jobs", "ls").err
    assert run_ok(service, "jobs", "ls", "-q", "q0", "-q", "q1", "-q", "q2").err == ""


def test_ls_oldest_and_newest_are_refused_together(service: Service) -> None:
    done = run(service, "jobs", "ls", "--oldest", "--newest")
    assert (done.code, done.out) == (2, "")
    assert "Give --oldest or --newest, not both." in done.err


def test_ls_with_json_prints_one_object_per_line_with_exact_payloads(service: Service) -> None:
    long, big = b'"%s"' % (b"x" * 5_000), b'{"n": 12345678901234567890123}'
    packed = Blob(msgspec.msgpack.encode({"u": 2**64 - 1}), Codec.MSGPACK)
    for payload in (Blob(long), Blob(big), packed, Blob(b"\x00\xff", Codec.RAW), Blob(b"{bad")):
        put(service, new(payload=payload))
        service.store.clock_offset_ms += 1_000
    fifth, fourth, third, second, first = run_ok(service, "jobs", "ls", "--json").lines
    assert first["payload"] == "x" * 5_000
    assert (second["payload"], second["payload_codec"]) == ({"n": 12345678901234567890123}, "json")
    assert (third["payload"], third["payload_codec"]) == ({"u": 2**64 - 1}, "msgpack")
    assert (fourth["payload_base64"], fourth["payload_codec"], "payload" in fourth) == ("AP8=", "raw", False)
    assert (fifth["payload_base64"], "payload" in fifth) == ("e2JhZA==", False)
    assert (first["state"], first["worker"], first["retry"]["tries"]) == ("queued", None, 0)


def test_show_a_failed_job(service: Service) -> None:
    callback = Callback(url="https://example.org/done", events=("failed",))
    retry = Backoff(tries=2, base_ms=0)
    put(service, new("q", "send", payload=Blob(b'{"order_id":7}'), tags=("shop",), retry=retry, callback=callback))
    fail(service, then="retry", error=None)
    key = format_id(fail(service))
    page = run_ok(service, "jobs", "show", key).out
    lines = page.splitlines()
    assert lines[0] == f"{key}  send  failed"
    assert lines[1].startswith("It failed at ")
    for words in ('{"order_id":7}', "shop", "https://example.org/done when failed", 'File "mail.py", line 12', "UTC ("):
        assert words in page
    starts = [line.split("  ")[0] for line in lines]
    assert [start for start in starts if start.startswith("attempt ")] == ["attempt 1", "attempt 2"]
    document = run_ok(service, "jobs", "show", key, "--json").document
    assert (document["state"], document["payload"], document["attempts"][1]["error"]["traceback"]) == (
        "failed", {"order_id": 7}, TRACEBACK,
    )  # fmt: skip
    assert document["explanation"]["reasons"][0]["kind"] == "ended"


def test_show_the_errors_of_all_attempts(service: Service) -> None:
    put(service, new(retry=Backoff(tries=2, base_ms=0)))
    fail(service, then="retry", error=Blob(b'{"type": "First", "message": "a"}'))
    key = format_id(fail(service, error=Blob(b'"just text"')))
    last, both = run_ok(service, "jobs", "show", key).out, run_ok(service, "jobs", "show", key, "--errors").out
    assert "Error of attempt 1" not in last
    assert "Error of attempt 1" in both
    assert "First: a" in last  # in the timeline
    assert '"just text"' in last


def test_show_a_running_job_with_its_children_and_a_finished_job(service: Service) -> None:
    put(service, new("q", "order", result_ttl_ms=60_000))
    (parent,) = take(service)
    (child,) = put(service, new("q", "line", parent=parent.id))
    service.update([Update(id=parent.id, token=parent.lease_token, progress=0.4)]).wait()
    page = run_ok(service, "jobs", "show", parent.key).out
    assert "40%" in page
    assert f"{format_id(child.id)}\tline\tqueued" in page
    assert f"parent    {parent.key}" in run_ok(service, "jobs", "show", format_id(child.id)).out
    service.delete([child.id]).wait()
    service.finish([Finish(parent.id, parent.lease_token, Blob(b'{"sum":3}'))]).wait()
    assert 'Result (json)\n  {"sum":3}\n' in run_ok(service, "jobs", "show", parent.key).out
    assert run_ok(service, "jobs", "show", parent.key, "--json").document["result"] == {"sum": 3}


def test_show_note_and_log_of_a_running_job(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.update([Update(id=job.id, token=job.lease_token, progress=0.4, note="page 4 of 10")]).wait()
    lines = [LogLine(1_800_000_000_123, "warning", "page 3\nis long")]
    service.log([Log(job.id, job.lease_token, lines)]).wait()
    page = run_ok(service, "jobs", "show", job.key).out
    assert "page 4 of 10" in page
    assert "2027-01-15 08:00:00.123  attempt 1  warning  page 3\n" in page
    assert run_ok(service, "jobs", "show", job.key, "--json").document["logs"]["lines"][0]["text"] == "page 3\nis long"


def test_texts_of_users_cannot_move_the_cursor(service: Service) -> None:
    evil = "\x9b31mred \x7f \u202eturned"
    with allow_legacy_names():
        (made,) = put(service, new("q", evil, payload=Blob(f'"{evil}"'.encode())))
    for arguments in (("ls",), ("show", format_id(made.id))):
        out = run_ok(service, "jobs", *arguments).out
        assert not set(out) & {"\x9b", "\x7f", "\u202e"}
        assert "\\x9b31mred" in out


def test_json_escapes_control_characters(service: Service) -> None:
    evil = "\x9b31mred \x7f \u202eturned \u061c"
    with allow_legacy_names():
        (made,) = put(service, new("q", evil, payload=Blob(f'{{"{evil}":1}}'.encode())))
    for arguments in (("ls", "--json"), ("show", format_id(made.id), "--json")):
        out = run_ok(service, "jobs", *arguments).out
        assert not set(out) & {"\x9b", "\x7f", "\u202e", "\u061c"}
        assert '"\\u009b31mred \\u007f \\u202eturned \\u061c"' in out
    [job] = run_ok(service, "jobs", "ls", "--json").lines
    assert (job["name"], job["payload"]) == (evil, {evil: 1})


def test_errors_escape_control_characters(service: Service) -> None:
    evil = "\x9b31m\u202e"
    with allow_legacy_names():
        service.limit(Limit(name=evil, matches=Matcher(queue="q"), running=1)).wait()
    for arguments in (("enqueue", evil, "n"), ("schedules", "pause", evil), ("limits", "show", evil)):
        done = run(service, *arguments)
        assert not set(done.out + done.err) & {"\x9b", "\u202e"}
    assert "must not contain control characters" in run(service, "enqueue", evil, "n").err


def test_explain(service: Service) -> None:
    service.pause("q", reason="provider is down").wait()
    (made,) = put(service, new())
    key = format_id(made.id)
    done = run_ok(service, "jobs", "explain", key)
    assert "provider is down" in done.out.splitlines()[0]
    document = run_ok(service, "jobs", "explain", key, "--json").document
    assert (document["id"], document["reasons"][0]["kind"]) == (key, "paused")


@pytest.mark.parametrize(
    "verb", ["show", "explain", "retry", "requeue", "cancel", "wake", "delete --yes", "edit --priority 1"]
)
def test_an_unknown_job_exits_with_1_and_says_what_was_tried(service: Service, verb: str) -> None:
    name, *options = verb.split()
    unknown = run(service, "jobs", name, UNKNOWN, *options)
    assert (unknown.code, unknown.out) == (1, "")
    assert "There is no job with this id" in unknown.err
    unknown = run(service, "jobs", name, "nonsense", *options)
    assert (unknown.code, unknown.out) == (1, "")
    assert "nonsense: no job has this id, Bedrock job number, download id, processor uuid" in unknown.err
    assert "at most 512" in run(service, "jobs", name, "x" * 5_000, *options).err


@pytest.mark.parametrize("verb", ["show", "explain"])
def test_explains_that_an_ended_job_was_removed(service: Service, verb: str) -> None:
    put(service, new())
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    done = run(service, "jobs", verb, job.key)
    assert done.code == 1
    assert "has ended, and nothing of it is kept" in done.err
    assert "result_ttl_ms" in done.err
    assert "changed" not in done.err


def test_retry_cancel_and_delete_continue_after_a_refusal(service: Service) -> None:
    put(service, new())
    key = format_id(fail(service))
    done = run(service, "jobs", "retry", UNKNOWN, key)
    assert (done.code, done.rows) == (1, [[key, "queued"]])
    assert UNKNOWN in done.err
    assert run_ok(service, "jobs", "cancel", key, "--reason", "withdrawn").rows == [[key, "cancelled"]]
    assert run_ok(service, "jobs", "delete", key, "-y").rows == [[key, "deleted"]]
    assert counts(service) == {}


def test_deletes_a_running_job_only_on_request(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    assert run(service, "jobs", "delete", job.key, "--yes").code == 1
    assert run_ok(service, "jobs", "delete", job.key, "--yes", "--even-running").rows == [[job.key, "deleted"]]


def test_delete_without_a_terminal_needs_yes(service: Service) -> None:
    (made,) = put(service, new())
    done = run(service, "jobs", "delete", format_id(made.id))
    assert done.code == 2
    assert "--yes" in done.err
    assert counts(service) == {"queued": 1}


@pytest.mark.parametrize(("options", "attempt"), [((), 2), (("--give-back",), 1)])
def test_requeue_takes_a_job_from_its_worker(service: Service, options: tuple[str, ...], attempt: int) -> None:
    put(service, new())
    (held,) = take(service)
    assert run_ok(service, "jobs", "requeue", held.key, *options).rows == [[held.key, "queued"]]
    (again,) = take(service)
    assert (again.id, again.attempt) == (held.id, attempt)


def test_wake(service: Service) -> None:
    (awaited,) = put(service, new("q", "first"))
    (waits,) = put(service, new("q", "second", after=(awaited.id,)))
    key = format_id(waits.id)
    assert run_ok(service, "jobs", "wake", key).rows == [[key, "queued"]]


def test_edit(service: Service) -> None:
    (made,) = put(service, new(delay_ms=60_000))
    key = format_id(made.id)
    payload = '{"n": 12345678901234567890123}'
    run_ok(service, "jobs", "edit", key, "--name", "other", "--priority", "-5", "--payload", payload)
    job = read(service, made.id)
    assert (job.name, job.priority, job.payload.data) == ("other", -5, payload.encode())
    assert run(service, "jobs", "edit", key, "--priority", "1", "--if-revision", "9").code == 1
    run_ok(service, "jobs", "edit", key, "--delay", "0s")
    assert read(service, made.id).state is State.QUEUED
    assert service.take(Take(queues=("q",))).wait().jobs[0].id == made.id


@pytest.mark.parametrize("options", [(), ("--delay", "1s", "--run-at", "2100-01-01T00:00Z"), ("--payload", "{")])
def test_an_invalid_edit_is_a_usage_error(service: Service, options: tuple[str, ...]) -> None:
    (made,) = put(service, new())
    assert run(service, "jobs", "edit", format_id(made.id), *options).code == 2
    assert read(service, made.id).revision == 1


def test_an_unknown_state_is_a_usage_error(service: Service) -> None:
    done = run(service, "jobs", "ls", "--state", "broken")
    assert done.code == 2
    assert "'scheduled'" in done.err


def test_lists_history_only_on_request(service: Service) -> None:
    service.configure("q", {"history_length": 5}).wait()
    put(service, new("q", "done", tags=("t",)))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    assert names(service) == names(service, "--tag", "t") == []
    assert names(service, "--state", "history") == [("q", "done", "finished")]
    assert names(service, "--tag", "t", "--state", "history") == [("q", "done", "finished")]


def test_several_partitions(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    put(service, *(new(f"queue {at}", tags=("t",)) for at in range(8)))
    assert sorted(row[1] for row in run_ok(service, "jobs", "ls").rows) == [f"queue {at}" for at in range(8)]
    assert len(run_ok(service, "jobs", "ls", "--tag", "t").rows) == 8
    keys = [row[0] for row in run_ok(service, "jobs", "ls").rows]
    assert sorted(run_ok(service, "jobs", "cancel", *keys).rows) == sorted([key, "cancelled"] for key in keys)
    assert run(service, "enqueue", "queue 1", "n", "--id", UNKNOWN).code == 1  # the id belongs to another partition
