"""windlass backup: what it writes, verifies, refuses and restores; nothing half written under the final name."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path

import pytest

from tests.service.export.example_deployment import comparable, export_lines, fill
from tests.service.helpers import counts, new, put, take
from tests.support.console import run, run_ok
from windlass.core.export.backup import seal, verify
from windlass.core.export.lines import EndLine, decode_header, decode_line, encode_line
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def without_backup(lines: list[bytes]) -> list[bytes]:
    """Return lines whose end has no checksum."""
    end = json.loads(lines[-1])
    assert end.pop("sha256")
    return [*lines[:-1], json.dumps(end).encode()]


@pytest.mark.parametrize("name", ["b.jsonl", "b.jsonl.gz"])
def test_a_backup_is_verified_rehearsed_and_restored(
    service: Service, target: Service, tmp_path: Path, name: str
) -> None:
    fill(service)
    target.store.open_sync()  # marks the namespace as a test namespace
    file = tmp_path / name
    done = run_ok(service, "backup", str(file))
    assert done.err == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [name]
    content = gzip.decompress(file.read_bytes()) if name.endswith(".gz") else file.read_bytes()
    lines = content.splitlines(keepends=True)
    assert comparable(without_backup(lines)) == comparable(export_lines(service))
    point = verify(lines).point
    assert (point.is_live, point.until_ms) == (False, 0)
    assert point.states["running"] == 3
    written = f"Written    {file}, {file.stat().st_size:,} bytes, {len(lines):,} lines"
    assert done.out.splitlines()[-1] == written
    checked = run_ok(service, "backup", "verify", str(file), "--restore")
    assert checked.out.splitlines()[:4] == done.out.splitlines()[:4]
    assert checked.out.splitlines()[-1].endswith("jobs: the backup is whole")
    back = run_ok(target, "backup", "restore", str(file))
    assert back.out.splitlines()[-1].startswith("3 jobs that ran or slept at the point will run again. Start")
    assert comparable(export_lines(target)) == comparable(export_lines(service))


def test_to_standard_output_the_report_is_on_the_other_stream(service: Service, tmp_path: Path) -> None:
    put(service, new())
    done = run_ok(service, "backup", "create", "-")
    assert verify(done.out.encode().splitlines(keepends=True)).counts["job"] == 1
    assert done.err.startswith("Point ")
    assert run(service, "backup", "verify", "-", given=done.out.encode()).code == 0


def test_the_oldest_backups_of_a_folder_are_removed(service: Service, tmp_path: Path) -> None:
    put(service, new())
    folder = tmp_path / "backups"
    folder.mkdir()
    names = [f"windlass-2025010{day}T000000Z.jsonl.gz" for day in range(1, 6)]
    dead, alive = (f".{name}.1.unfinished" for name in names[:2])
    for name in (*names, dead, alive, "notes.txt", "windlass-x.jsonl.gz"):
        (folder / name).write_text("x")
    os.utime(folder / dead, (1, 1))
    run_ok(service, "backup", "--to", str(folder), "--keep", "3")
    found = sorted(path.name for path in folder.iterdir())
    (written,) = set(found) - {*names[3:], alive, "notes.txt", "windlass-x.jsonl.gz"}
    run_ok(service, "backup", "verify", str(folder / written))
    assert len(found) == 6


@pytest.mark.parametrize(
    "arguments", [(), ("f", "--to", "d"), ("f", "--keep", "3"), ("--to", "d", "--keep", "0"), ("f", "g")]
)
def test_usage(service: Service, arguments: tuple[str, ...]) -> None:
    assert run(service, "backup", "create", *arguments).code == 2


def test_a_deployment_with_data_is_not_restored_into(service: Service, target: Service, tmp_path: Path) -> None:
    put(service, new())
    put(target, new("theirs"))
    file = str(tmp_path / "b")
    run_ok(service, "backup", file)
    refused = run(target, "backup", "restore", file)
    assert refused.code == 1
    assert "contains data already" in refused.err
    assert counts(target, "q") == {}


@pytest.mark.parametrize("name", ["b.jsonl", "b.jsonl.gz"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "longer", "empty"])
def test_a_damaged_file_is_neither_verified_nor_restored(
    service: Service, target: Service, tmp_path: Path, name: str, damage: str
) -> None:
    put(service, *(new() for _ in range(200)))
    file = tmp_path / name
    run_ok(service, "backup", str(file))
    whole = file.read_bytes()
    middle = len(whole) // 2
    file.write_bytes(
        {
            "cut": whole[:-100],
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "longer": whole + whole,
            "empty": b"",
        }[damage]
    )
    for words in (("verify", "--restore"), ("restore",)):
        done = run(target, "backup", *words, str(file))
        assert done.code == 1, done
        assert done.err.splitlines()[-1].startswith("windlass: "), done
    assert counts(target) == {}


def test_a_missing_file_and_an_export(service: Service, tmp_path: Path) -> None:
    assert "cannot be read" in run(service, "backup", "verify", "/nowhere").err
    assert "cannot be written" in run(service, "backup", "/nowhere/b").err
    put(service, new())
    file = str(tmp_path / "e.jsonl")
    run_ok(service, "export", file)
    assert "not a backup" in run(service, "backup", "verify", file).err


def test_a_rehearsal_reports_what_cannot_be_restored(service: Service, tmp_path: Path) -> None:
    """Lines of the right form, in which two jobs have one unique key: the second is refused."""
    put(service, new(unique="a"), new(unique="b"))
    file = tmp_path / "b"
    run_ok(service, "backup", str(file))
    whole = file.read_bytes().replace(b'"unique":"b"', b'"unique":"a"').splitlines(keepends=True)
    header, end = decode_header(whole[0]), decode_line(whole[-1], 0)
    assert header.backup is not None
    assert isinstance(end, EndLine)
    content = [*whole[1:-1], encode_line(EndLine(counts=end.counts))]
    file.write_bytes(b"".join(seal(header, content, header.backup)))
    run_ok(service, "backup", "verify", str(file))
    done = run(service, "backup", "verify", str(file), "--restore")
    assert done.code == 1
    assert "could not be restored" in done.err


# Restored jobs


def test_a_job_that_ran_is_taken_again(service: Service, target: Service, tmp_path: Path) -> None:
    put(service, new())
    take(service)
    file = str(tmp_path / "b")
    run_ok(service, "backup", file)
    target.store.open_sync()
    run_ok(target, "backup", "restore", file)
    (job,) = take(target)
    assert job.attempt == 1
