"""windlass engine check and repair: damaged files of an embedded engine are found, and repaired with a copy."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.embedded_process import increment_file, is_stopped, new_data_dir, send_command, wait_until
from windlass.cli.main import windlass
from windlass.core.engine_state import EngineState
from windlass.core.errors import EngineUnavailable, EngineUnsuitable
from windlass.server import build_store
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.embedded.file_repair import AppendOnlyFiles

BASE = "appendonlydir/appendonly.aof.1.base.rdb"
MANIFEST = "appendonlydir/appendonly.aof.manifest"


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Directory of a stopped engine with the keys k0 to k9."""
    with new_data_dir() as path:
        with EmbeddedEngine(path):
            for number in range(10):
                assert send_command(path, b"SET k%d v" % number) == "+OK"
        wait_until(lambda: is_stopped(path))
        yield path


def run(*arguments: str, **options: str) -> Result:
    return CliRunner().invoke(windlass, ["engine", *arguments], **options)  # type: ignore[arg-type]


def copies(data_dir: Path) -> list[Path]:
    return list(data_dir.glob("appendonlydir-before-repair-*"))


def engine_states(data_dir: Path) -> list[EngineState]:
    store = build_store(Settings(data_dir=str(data_dir)))
    try:
        return Service(store).engines().wait()
    finally:
        store.close_sync()


def damage(data_dir: Path) -> bytes:
    """Overwrite some bytes before the last two keys, so that the engine does not start."""
    path = increment_file(data_dir)
    content = path.read_bytes()
    at = content.index(b"k8") - 4
    path.write_bytes(content[:at] + b"xxxx" + content[at + 4 :])
    return content


def test_whole_files(data_dir: Path) -> None:
    result = run("check", "--data-dir", str(data_dir))
    assert result.exit_code == 0, result.output
    assert "appendonly.aof.1.base.rdb" in result.output
    assert "All files are readable." in result.output
    assert run("repair", "--data-dir", str(data_dir), "--yes").exit_code == 0
    assert copies(data_dir) == []


def test_finds_and_repairs_damage_with_a_copy(data_dir: Path) -> None:
    damage(data_dir)
    damaged = increment_file(data_dir).read_bytes()
    with pytest.raises(EngineUnavailable, match=r"damaged.*windlass engine check.*windlass engine repair"):
        EmbeddedEngine(data_dir).join()
    wait_until(lambda: is_stopped(data_dir))

    found = run("check", "--data-dir", str(data_dir), "--json")
    assert found.exit_code == 1
    report = json.loads(found.stdout)
    assert (report["is_whole"], report["has_manifest"]) == (False, True)
    assert increment_file(data_dir).read_bytes() == damaged  # nothing was changed

    result = run("repair", "--data-dir", str(data_dir), "--yes")
    assert result.exit_code == 0, result.output
    assert f"Cut {report['unreadable_bytes']:,} bytes off" in result.output
    (copy,) = copies(data_dir)
    assert (copy / increment_file(data_dir).name).read_bytes() == damaged
    assert (copy / "appendonly.aof.manifest").exists()
    with EmbeddedEngine(data_dir) as engine:
        assert [send_command(data_dir, b"EXISTS k%d" % number) for number in range(10)] == [":1"] * 8 + [":0"] * 2
        (cut,) = engine.cuts
        assert (cut.bytes, cut.by) == (report["unreadable_bytes"], "repair")


def test_a_repair_needs_confirmation(data_dir: Path) -> None:
    damage(data_dir)
    before = increment_file(data_dir).read_bytes()
    assert run("repair", "--data-dir", str(data_dir)).exit_code == 2
    assert increment_file(data_dir).read_bytes() == before
    assert copies(data_dir) == []


def test_a_missing_manifest_refuses_the_start_and_is_rebuilt(data_dir: Path) -> None:
    manifest = (data_dir / MANIFEST).read_text()
    (data_dir / MANIFEST).unlink()
    with pytest.raises(EngineUnsuitable, match=r"no appendonly.aof.manifest.*start empty.*windlass engine repair"):
        EmbeddedEngine(data_dir).join()
    assert not (data_dir / MANIFEST).exists()
    assert run("check", "--data-dir", str(data_dir)).exit_code == 1
    assert run("repair", "--data-dir", str(data_dir), "--yes").exit_code == 0
    assert (data_dir / MANIFEST).read_text() == manifest
    assert len(copies(data_dir)) == 1
    with EmbeddedEngine(data_dir):
        assert send_command(data_dir, b"EXISTS k9") == ":1"


def test_rebuilds_no_manifest_from_ambiguous_names(data_dir: Path) -> None:
    (data_dir / MANIFEST).unlink()
    shutil.copy(
        data_dir / "appendonlydir/appendonly.aof.1.base.rdb", data_dir / "appendonlydir/appendonly.aof.2.base.rdb"
    )
    result = run("repair", "--data-dir", str(data_dir), "--yes")
    assert isinstance(result.exception, EngineUnsuitable)
    assert "one base file" in str(result.exception)
    assert copies(data_dir) == []
    assert not (data_dir / MANIFEST).exists()


def test_a_damaged_base_file_is_not_cut(data_dir: Path) -> None:
    base = data_dir / BASE
    base.write_bytes(base.read_bytes()[:-20])
    result = run("check", "--data-dir", str(data_dir))
    assert result.exit_code == 1
    assert "restore the directory from a backup" in result.output
    assert isinstance(run("repair", "--data-dir", str(data_dir), "--yes").exception, EngineUnsuitable)
    assert copies(data_dir) == []


def test_names_a_missing_file(data_dir: Path) -> None:
    increment_file(data_dir).unlink()
    result = run("check", "--data-dir", str(data_dir))
    assert result.exit_code == 1
    assert "appendonly.aof.1.incr.aof  0 bytes, increment: No such file" in result.output
    assert isinstance(run("repair", "--data-dir", str(data_dir), "--yes").exception, EngineUnsuitable)
    assert copies(data_dir) == []


def test_refuses_files_of_a_running_engine(data_dir: Path) -> None:
    with EmbeddedEngine(data_dir):
        for command in ("check", "repair"):
            result = run(command, "--data-dir", str(data_dir))
            assert isinstance(result.exception, EngineUnavailable)
            assert "Stop all processes" in str(result.exception)


def test_an_engine_does_not_start_during_a_check(data_dir: Path) -> None:
    files = AppendOnlyFiles(data_dir)
    with files.held(), pytest.raises(EngineUnavailable):
        EmbeddedEngine(data_dir, start_timeout_s=0.1).join()
    with EmbeddedEngine(data_dir):
        pass


def test_refuses_an_empty_directory_and_an_external_engine(tmp_path: Path) -> None:
    assert "has no data" in str(run("check", "--data-dir", str(tmp_path)).exception)
    assert not list(tmp_path.iterdir())
    elsewhere = run("check", env={"WINDLASS_URL": "redis://127.0.0.1:1"})  # type: ignore[arg-type]
    assert "not embedded" in str(elsewhere.exception)


def test_works_with_redis(data_dir: Path) -> None:
    damage(data_dir)
    redis = shutil.which("redis-server")
    assert redis is not None
    (file,) = [file for file in AppendOnlyFiles(data_dir, Path(redis)).check().files if file.kind == "i"]
    assert file.problem.startswith("damaged after byte")


def test_logs_and_reports_bytes_that_the_engine_cut_off(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = increment_file(data_dir)
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    kept = content.rindex(b"*3\r\n")
    with caplog.at_level(logging.WARNING), EmbeddedEngine(data_dir) as engine:
        (cut,) = engine.cuts
        assert (cut.file, cut.offset, cut.bytes, cut.by) == (path.name, kept, len(content) - 7 - kept, "start")
        messages = [record.getMessage() for record in caplog.records if "cut them off" in record.getMessage()]
        assert len(messages) == 1
        assert f"the last {cut.bytes} bytes of {path}" in messages[0]
        engine.ensure()  # logs it once
        assert caplog.text.count("cut them off") == 1
    (state,) = engine_states(data_dir)  # as the engine page shows them
    assert "data_cut" in {finding.code for finding in state.findings}
    wait_until(lambda: is_stopped(data_dir))
    result = CliRunner().invoke(windlass, ["doctor", "--data-dir", str(data_dir)])
    assert result.exit_code == 0, result.output  # a warning
    assert "data_cut" in result.output
    assert f"{cut.bytes} bytes off {path.name} after byte {kept}" in result.output
