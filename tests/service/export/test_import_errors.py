"""import_jobs of an invalid or truncated export: the error names the line, and the import changes nothing by halves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.service.export.example_deployment import comparable, export_lines, fill, snapshot
from tests.service.machines import invariants
from windlass.core.errors import BadInput, TooLarge
from windlass.core.validation.bounds import PAYLOAD_STORED_MAX
from windlass.service import Service

LINE_FIELDS = ("attempts", "logs", "logs_dropped", "result", "after", "removed_at_ms", "x")


def job_line(**changes: Any) -> dict[str, Any]:
    job = {
        "id": "01890a5d-ac96-7000-8000-b5c1d0b7a3f2", "queue": "q", "name": "n", "state": "queued",
        "payload": {"json": 1}, "fingerprint": "0" * 16, "sequence": 1, "created_at_ms": 5, "run_at_ms": 5,
    }  # fmt: skip
    line = {key: changes.pop(key) for key in tuple(changes) if key in LINE_FIELDS}
    return {"kind": "job", "job": job | changes} | line


HEADER = {
    "kind": "header", "format": "windlass-export", "version": 1, "windlass": "0", "exported_at_ms": 1,
    "namespace": "wl", "partitions": 1, "counts": {},
}  # fmt: skip
NO_COUNTS = {"queue": 0, "limit": 0, "schedule": 0, "job": 0, "callback": 0}
END = {"kind": "end", "counts": NO_COUNTS}
WRONG_LINES = [
    b"",
    b"nonsense",
    b"{}",
    b"[]",
    b"null",
    b"\xff",
    b'{"kind": "job"',
    b"[" * 100_000,
    5,
    None,
    {"kind": "spell"},
    {"kind": "job"},
    HEADER,
    {"kind": "end", "counts": {}},
    {"kind": "end", "counts": NO_COUNTS | {"job": 7}},
    job_line(x=1),
    job_line(id="x"),
    job_line(id=5),
    job_line(queue=""),
    job_line(queue="q" * 256),
    job_line(name="a\0b"),
    job_line(state="running"),
    job_line(state="lost"),
    job_line(state=3),
    job_line(payload=5),
    job_line(payload={}),
    job_line(payload={"base64": "!", "codec": "raw"}),
    job_line(payload={"base64": "aaaa", "codec": "odd"}),
    job_line(payload={"base64": "aaaa"}),
    job_line(payload={"json": 1, "codec": "json"}),
    job_line(fingerprint="0"),
    job_line(payload={"json": "x" * PAYLOAD_STORED_MAX}),  # with its quotes it is longer
    job_line(sequence=-1),
    job_line(sequence=2**48),
    job_line(sequence=1.5),
    job_line(created_at_ms=2**60),
    job_line(attempt=-1),
    job_line(progress=1_000_001),
    job_line(priority=2**31),
    job_line(state="finished"),
    job_line(ended_at_ms=5),
    job_line(is_history=True),
    job_line(is_held=True),
    job_line(state="waiting"),
    job_line(joins=True),
    job_line(parent="01890a5d-ac96-7000-8000-b5c1d0b7a3f2"),
    job_line(tags=["t"] * 21),
    job_line(tags=["a\0b"]),
    job_line(retry=[1, 2, 0.5, 3, 4]),
    job_line(repeat="NEVER EVER"),
    job_line(callback={"url": "gopher://x"}),
    job_line(removed_at_ms=5),
    job_line(result={"json": 1}),
    job_line(after=[["01890a5d-ac96-7000-8000-b5c1d0b7a3f2", "q"]]),
    job_line(after=[["x", "q"]], has_members=True),
    job_line(attempts=[{"attempt": 1, "ended_at_ms": 1, "reason": "r" * 256}]),
    job_line(attempts=[{"attempt": 1, "ended_at_ms": 1, "reason": "r", "worker": "me"}]),
    job_line(attempts=[{"attempt": 1, "ended_at_ms": 1, "reason": "r"}] * 21),
    job_line(note="n" * 257),
    job_line(note=5),
    job_line(logs_dropped=5),
    job_line(logs=[[1, 1, "", "x"]]),
    job_line(logs=[[1, -1, "info", "x"]]),
    job_line(logs=[[1, 1, "info"]]),
    job_line(logs=[[1, 1, "info", "x" * 4_097]]),
    job_line(logs=[[1, 1, "info", "x" * 4_096]] * 17),
    job_line(logs=[[1, 1, "info", "x"]] * 201),
    {"kind": "queue", "name": ""},
    {"kind": "queue", "name": "q", "configuration": {"speed": 1}},
    {"kind": "queue", "name": "q", "configuration": {"lease_ms": -1}},
    {"kind": "queue", "name": "q", "weights": {"a": 0}},
    {"kind": "queue", "name": "q", "pauses": [{"name": "n"}]},
    {"kind": "queue", "name": "q", "pauses": [{"lane": "l", "name": "n"}]},
    {"kind": "limit", "limit": {"name": "", "matches": {}}},
    {"kind": "limit", "limit": {"name": "l", "matches": {}}},
    {
        "kind": "schedule",
        "schedule": {"name": "s", "job": {"queue": "q", "name": "n"}},
        "payload": {"json": 1},
        "revision": 1,
        "created_at_ms": 1,
    },
    {
        "kind": "callback",
        "id": "01890a5d-ac96-7000-8000-b5c1d0b7a3f2",
        "number": 1,
        "at_ms": 1,
        "job": job_line()["job"],
    },
]


def as_text(line: Any) -> Any:
    return json.dumps(line).encode() if isinstance(line, dict) else line


@pytest.mark.parametrize("number", range(len(WRONG_LINES)))
def test_a_bad_line_is_named_and_changes_nothing(service: Service, number: int) -> None:
    with pytest.raises((BadInput, TooLarge), match=r"^Line 2\b.*\.$") as caught:
        service.import_jobs([as_text(HEADER), as_text(WRONG_LINES[number]), as_text(END)]).wait()
    assert len(str(caught.value)) < 1_000
    assert snapshot(service.store).jobs == {}
    assert service.queues().wait() == []


@pytest.mark.parametrize(
    "first",
    [b"", b"{}", b"x", 5, END, HEADER | {"format": "other"}, HEADER | {"version": 2}, HEADER | {"partitions": 0}],
)
def test_a_file_of_another_kind_or_version(service: Service, first: Any) -> None:
    with pytest.raises(BadInput, match="Line 1"):
        service.import_jobs([as_text(first), as_text(END)]).wait()


def test_a_good_line_is_good(service: Service) -> None:
    counted = END | {"counts": NO_COUNTS | {"job": 1}}
    answer = service.import_jobs([as_text(HEADER), as_text(job_line()), as_text(counted)]).wait()
    assert answer.added == {"job": 1}
    invariants.check(snapshot(service.store))
    with pytest.raises(BadInput, match="Line 4 comes after the end"):
        service.import_jobs([as_text(one) for one in (HEADER, job_line(), counted, END)]).wait()


def test_a_file_that_is_cut_off_is_recognised_and_can_be_imported_again(service: Service, target: Service) -> None:
    fill(service)
    lines = export_lines(service)
    for cut in range(0, len(lines), 7):
        with pytest.raises(BadInput, match=r"truncated|Line 1"):
            target.import_jobs(lines[:cut]).wait()
    with pytest.raises(BadInput, match="line of an export"):
        target.import_jobs([*lines[:20], lines[20][:50]]).wait()
    assert not target.import_jobs(lines).wait().refused
    assert comparable(export_lines(target)) == comparable(lines)
    invariants.check(snapshot(target.store))
