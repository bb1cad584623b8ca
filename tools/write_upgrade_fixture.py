"""Write tests/house/upgrade/VERSION.tar.gz: a small data directory of this version, with a list of its contents.

Run it once per released version. Later versions open the directory, check it against the list, and drain it
(tests/house/test_upgrade.py)."""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import windlass
from windlass import Windlass, server
from windlass.core.access.audit import AuditEntry
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import Blob, Callback, Job, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Finish, Take, Update, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.settings import Settings

HERE = Path(__file__).parent.parent / "tests" / "house" / "upgrade"
HOUR_MS = 3_600_000
WORKER, PUSHED = b"a worker at work", b"worker of pushes"


class Writer:
    """Writer of jobs in every state and the objects around them. `ids` maps names to ids of jobs."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.ids: dict[str, bytes] = {}

    def write(self) -> None:
        self.service.register(WORKER, WorkerInfo(host="old", queues=("feeds", "mail")), beat_ms=HOUR_MS).wait()
        self._waiting_jobs()
        self._ended_jobs()
        self._family()
        self._limited_jobs()
        self._pushed_job()
        self.service.pause("newsletters", reason="until Monday").wait()
        self.service.audit([AuditEntry(who="ada", what="pause_queue", target="newsletters")]).wait()
        numbered = self.service.enqueue_numbered([NewJob(queue="bedrock", name="numbered")]).wait()
        self.ids["numbered"] = numbered[0].id
        for schedule in (
            Schedule(
                name="nightly", job=NewJob(queue="reports", name="render"), cron="30 3 * * *", timezone="Europe/Madrid"
            ),
            Schedule(name="often", job=NewJob(queue="reports", name="warm"), every_ms=HOUR_MS),
        ):
            self.service.schedule(schedule).wait()

    def enqueue(self, key: str, queue: str, **fields: Any) -> bytes:
        job = NewJob(queue=queue, name=key, **fields)
        self.ids[key] = self.service.enqueue([job]).one().wait().id
        return self.ids[key]

    def take(self, queue: str) -> Job:
        request = Take(queues=(queue,), most=1, worker=WORKER, lease_ms=HOUR_MS)
        (job,) = self.service.take(request).wait().jobs
        return job

    def _waiting_jobs(self) -> None:
        payload = Blob(json.dumps({"customer": "Zoë", "order": 9007199254740993}).encode())
        self.enqueue("queued", "mail", payload=payload, priority=-5, tags=("shop", "urgent"))
        self.enqueue("in a lane", "mail", lane="eu", expires_in_ms=1000 * HOUR_MS)
        scheduled = self.enqueue("scheduled", "mail", delay_ms=6 * HOUR_MS, unique="nightly")
        self.enqueue("after", "mail", after=(scheduled,))
        self.enqueue("group", "mail", after=(scheduled, self.ids["queued"]), joins=True)
        self.enqueue("repeats", "mail", delay_ms=HOUR_MS, repeat="SCHEDULED, +1 DAY")
        self.enqueue("paused", "newsletters")

    def _ended_jobs(self) -> None:
        self.service.configure("orders", {"history_length": 100, "name_lanes": True}).wait()
        hook = Callback(url="https://192.0.2.7/hooks", events=("finished",))
        self.enqueue("finished", "orders", result_ttl_ms=1000 * HOUR_MS, callback=hook)
        job = self.take("orders")
        self.service.finish([Finish(job.id, job.lease_token, Blob(b'{"parcel": 18446744073709551616}'))]).wait()
        self.enqueue("failed", "orders", retry=Backoff(tries=1))
        job = self.take("orders")
        self.service.fail([Fail(id=job.id, token=job.lease_token, error=Blob(b'"no bank"'), then="final")]).wait()
        self.service.cancel([self.enqueue("cancelled", "orders")], reason="changed mind").wait()

    def _family(self) -> None:
        self.enqueue("parent", "reports")
        parent = self.take("reports")
        for key in ("first child", "second child"):
            self.enqueue(key, "reports", parent=parent.id)
        self.service.finish([Finish(parent.id, parent.lease_token, None)]).wait()

    def _limited_jobs(self) -> None:
        self.service.limit(Limit(name="one feed", matches=Matcher(queue="feeds"), running=1)).wait()
        self.enqueue("running", "feeds")
        job = self.take("feeds")
        self.service.update([Update(id=job.id, token=job.lease_token, progress=0.5, note="half")]).wait()
        self.enqueue("held back", "feeds")

    def _pushed_job(self) -> None:
        info = WorkerInfo(host="edge", url="http://192.0.2.1:9", slots=3, queues=("edge",))
        self.service.register(PUSHED, info, beat_ms=HOUR_MS).wait()
        self.enqueue("dispatched", "edge")
        self.service.dispatch(accept_ms=HOUR_MS).wait()


def list_contents(service: Service, ids: dict[str, bytes]) -> dict[str, Any]:
    found = service.job(list(ids.values())).wait()
    return {
        key: [format_id(one.job.id), one.job.queue, one.job.state.label] for key, one in zip(ids, found, strict=True)
    }


def write(directory: Path) -> dict[str, Any]:
    app = Windlass()
    store = server.build_store(Settings(data_dir=str(directory)))
    app.connect(store)
    service = app.service

    @app.task(queue="tasks", keep_result="1000h")
    def add(a: int, b: int) -> int:
        return a + b

    writer = Writer(service)
    writer.write()
    writer.ids["task"] = add.enqueue(2, 3).id_bytes
    token = service.create_token(NewToken(name="deploy", roles=frozenset({Role.PRODUCE}), queues=("mail*",))).wait()
    contents = {
        "version": windlass.__version__,
        "written_at_ms": service.now().wait(),
        "token": token.text,
        "jobs": list_contents(service, writer.ids),
    }
    store.close_sync()
    return contents


def main() -> None:
    HERE.mkdir(exist_ok=True)
    path = HERE / f"{windlass.__version__}.tar.gz"
    with tempfile.TemporaryDirectory() as parent:
        directory = Path(parent) / "data"
        contents = write(directory)
        _wait_for_end(directory)
        _pack(directory, contents, path)
    print(f"Wrote {path.name}.")


def _pack(directory: Path, contents: dict[str, Any], path: Path) -> None:
    """Keep the engine's files, and the list of the contents with the names of all files."""
    contents["files"] = sorted(str(file.relative_to(directory)) for file in directory.rglob("*"))
    (directory / "contents.json").write_text(json.dumps(contents, indent=1))
    with tarfile.open(path, "w:gz") as archive:
        for name in ("contents.json", "appendonlydir"):
            archive.add(directory / name, name, filter=_without_owner)


def _without_owner(file: tarfile.TarInfo) -> tarfile.TarInfo:
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return file


def _wait_for_end(directory: Path) -> None:
    deadline_s = time.monotonic() + 60
    while (directory / "engine.sock").exists():
        if time.monotonic() > deadline_s:
            sys.exit("The engine did not end.")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
