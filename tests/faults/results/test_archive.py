"""The published histories of one run: they are judged again with the same findings, and a changed copy is found out."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from faults.__main__ import main
from faults.history import Entry
from faults.results.archive import LARGEST, Archive, judge, read_archive

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "reliability" / "history.jsonl.xz"


@pytest.fixture(scope="module")
def published() -> tuple[Archive, list[Entry]]:
    return read_archive(PUBLISHED)


def test_the_published_run_is_judged_again(published: tuple[Archive, list[Entry]]) -> None:
    archive, entries = published
    assert [str(finding) for finding in judge(archive, entries)] == list(archive.findings)
    assert archive.injected
    assert PUBLISHED.stat().st_size <= LARGEST


def test_a_second_finish_is_found(
    published: tuple[Archive, list[Entry]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, entries = published
    tampered = tmp_path / "tampered.xz"
    archive.write(tampered, entries + _second_finish(entries))
    assert main(["judge", str(tampered)]) == 1
    output = capsys.readouterr().out
    assert "finished twice: " in output
    assert "The run itself had other findings: none." in output


def test_a_lost_job_is_found(published: tuple[Archive, list[Entry]]) -> None:
    archive, entries = published
    call = next(entry for entry in entries if entry.client == "producer-sdk" and entry.phase == "ok" and entry.jobs)
    known = msgspec.structs.replace(call.jobs[0], id="0" * 32, key="no such job")
    begun, answered = (
        msgspec.structs.replace(call, n=1_000_000, phase=phase, jobs=(known,)) for phase in ("begun", "ok")
    )
    assert "lost" in {finding.rule for finding in judge(archive, [*entries, begun, answered])}


def _second_finish(entries: list[Entry]) -> list[Entry]:
    """Return a finish by another client of a job that was finished once."""
    finish = next(entry for entry in entries if entry.call == "finish" and entry.phase == "ok" and _is_finished(entry))
    begun = next(
        entry for entry in entries if (entry.client, entry.n, entry.phase) == (finish.client, finish.n, "begun")
    )
    return [msgspec.structs.replace(entry, client="tamperer") for entry in (begun, finish)]


def _is_finished(entry: Entry) -> bool:
    return len(entry.jobs) == 1 and entry.jobs[0].outcome == "finished"
