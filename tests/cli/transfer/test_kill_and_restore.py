"""A backup is taken while jobs flow, the engine and its data are lost, and the restored deployment runs on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cli.transfer.backup_load import QUEUE, BackupLoad, open_service
from tests.service.durable.builders import HOUR_MS, start, store, suspend, wait_for
from tests.service.export.example_deployment import drain, export_lines, fill
from tests.service.helpers import counts, new, put, take
from tests.support.console import run_ok
from tests.support.embedded_process import wait_until
from tests.support.engine_process import EngineProcess
from tests.support.profiles import IS_DEEP
from windlass.core.durable import StreamWrite
from windlass.core.errors import StaleLease
from windlass.core.export.backup import verify
from windlass.core.ids import parse_id
from windlass.core.job import Blob
from windlass.core.operations import Fail, Finish
from windlass.service import Service

ADDED_MIN = 3_000 if IS_DEEP else 400


def fill_all(service: Service) -> None:
    fill(service)
    job = start(service)
    store(service, job, "charge", b'{"receipt":"r-7"}')
    suspend(service, job, wait_for("approval", HOUR_MS))
    put(service, new("streams"))
    (job,) = take(service, "streams")
    write = StreamWrite(id=job.id, token=job.lease_token, values=(Blob(b'"once"'),), sequence=0)
    service.write_stream([write]).one().wait()


def lines_besides_load(lines: list[bytes]) -> list[Any]:
    """Return the lines that the load does not change, in an order that does not depend on the export."""
    found = (
        line for line in lines if b'"load"' not in line and not line.startswith((b'{"kind":"header', b'{"kind":"end'))
    )
    return sorted(map(json.loads, found), key=lambda line: json.dumps(line, sort_keys=True))


def ids_of_load(lines: list[bytes]) -> set[bytes]:
    jobs = (json.loads(line)["job"] for line in lines if line.startswith(b'{"kind":"job"'))
    return {parse_id(job["id"]) for job in jobs if job["queue"] == QUEUE}


def back_up(engine: EngineProcess, file: Path) -> None:
    command = [sys.executable, "-m", "windlass", "backup", str(file), "--url", engine.unix_url]
    done = subprocess.run(command, env=os.environ, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done


def _is_older_than_the_point(load: BackupLoad) -> bool:
    """Report whether enough was acknowledged before a backup that begins now. Its point is a whole second."""
    second = time.time() // 1 - 0.1
    added = sum(at < second for at in load.added.copy().values())
    return added > ADDED_MIN and any(at < second for at in load.ended.copy().values())


def test_everything_acknowledged_before_the_point_comes_back_and_runs(tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    with EngineProcess("valkey") as engine:
        service = open_service(engine)
        fill_all(service)
        static = lines_besides_load(export_lines(service))
        service.store.close_sync()
        with BackupLoad(engine) as load:
            wait_until(lambda: len(load.added) > ADDED_MIN and load.ended)
            back_up(engine, file)
            backed_up_at = time.time()
            wait_until(lambda: any(at > backed_up_at for at in load.added.copy().values()))
            engine.kill()
    lines = file.read_bytes().splitlines(keepends=True)
    point_s = verify(lines).point.at_ms / 1000
    with EngineProcess("valkey") as empty:
        target = open_service(empty)
        report = run_ok(target, "backup", "restore", str(file)).err
        assert "missing" not in report
        restored = export_lines(target)
        assert lines_besides_load(restored) == static
        there = ids_of_load(restored)
        must_be = {
            job for job, at in load.added.items() if at < point_s and load.ending.get(job, backed_up_at) >= backed_up_at
        }
        must_not_be = {job for job, at in load.ended.items() if at < point_s}
        assert len(must_be) > ADDED_MIN // 8
        assert must_not_be
        assert must_be <= there
        assert not must_not_be & there
        run_ok(target, "doctor")
        assert drain(target, [QUEUE]) > 0
        assert set(counts(target, QUEUE)) == {"scheduled"}, "no chain waits for a job that is not there"
        target.store.close_sync()


def test_a_worker_of_the_lost_engine_cannot_report_for_the_new_lease(tmp_path: Path) -> None:
    """In an empty engine the first token is that of the first lease in the lost engine."""
    with EngineProcess("valkey") as lost, EngineProcess("valkey") as empty:
        service, target = (open_service(engine) for engine in (lost, empty))
        put(service, new())
        (old,) = take(service)
        file = str(tmp_path / "b")
        run_ok(service, "backup", file)
        run_ok(target, "backup", "restore", file)
        (job,) = take(target)
        assert (job.id, job.lease_token > old.lease_token) == (old.id, True)
        assert isinstance(target.finish([Finish(old.id, old.lease_token)]).wait()[0], StaleLease)
        target.finish([Finish(job.id, job.lease_token)]).one().wait()
        service.store.close_sync()
        target.store.close_sync()


def test_steps_under_way_at_the_point_are_completed(tmp_path: Path) -> None:
    """A job has failed that has more children than one call cancels. No loop runs."""
    with EngineProcess("valkey") as lost, EngineProcess("valkey") as empty:
        service, target = open_service(lost), open_service(empty)
        put(service, new("parents"))
        (parent,) = take(service, "parents")
        put(service, *(new("children", parent=parent.id, held=True) for _ in range(700)))
        service.fail([Fail(id=parent.id, token=parent.lease_token, then="final")]).one().wait()
        assert counts(service, "children")["waiting"] > 100
        file = str(tmp_path / "b")
        run_ok(service, "backup", file)
        assert counts(service, "children")["waiting"] > 100
        run_ok(target, "backup", "restore", file)
        assert counts(target, "children") == {"cancelled": 700}
        service.store.close_sync()
        target.store.close_sync()
