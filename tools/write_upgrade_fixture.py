"""Write tests/house/upgrade/VERSION.tar.gz: a small data directory of this version, with a list of its contents.

Run it once per released version; an argument replaces the version in the name (`0.2.0.dev1`). Later versions open the
directory, check it against the list, and drain it (tests/house/test_upgrade.py). What a version adds to the stored data
belongs into `Additions`."""

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
from windlass.core.alerts.rule import AlertRule
from windlass.core.durable import Signal, StoreStep, StreamWrite, Suspend, Wait
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.ids import format_id
from windlass.core.job import Blob, Callback, FlowRef, Job, NewJob
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import ANY_JOB_WITH_STEPS, Fail, Finish, Take, Update, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.settings import Settings

HERE = Path(__file__).parent.parent / "tests" / "house" / "upgrade"
HOUR_MS = 3_600_000
WORKER, PUSHED = b"a worker at work", b"worker of pushes"
TARGET = "https://192.0.2.7/alerts"


class JobWriter:
    """`ids` maps names to ids of jobs."""

    def __init__(self, service: Service, ids: dict[str, bytes]) -> None:
        self.service = service
        self.ids = ids

    def enqueue(self, key: str, queue: str, **fields: Any) -> bytes:
        job = NewJob(queue=queue, name=key, **fields)
        self.ids[key] = self.service.enqueue([job]).one().wait().id
        return self.ids[key]

    def take(self, queue: str) -> Job:
        request = Take(queues=(queue,), most=1, worker=WORKER, lease_ms=HOUR_MS, wants=ANY_JOB_WITH_STEPS)
        (job,) = self.service.take(request).wait().jobs
        return job

    def finish(self, queue: str, result: Blob | None = None) -> bytes:
        job = self.take(queue)
        self.service.finish([Finish(job.id, job.lease_token, result)]).one().wait()
        return job.id


class Writer(JobWriter):
    """Writer of what version 0.1.0 stores: jobs in every state and the objects around them."""

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
        self.finish("orders", Blob(b'{"parcel": 18446744073709551616}'))
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


class Additions(JobWriter):
    """Writer of what came after version 0.1.0: durable jobs, flows, indexed fields, conditions of limits, tombstones,
    saved filters and alerts. Returns ids that are no jobs with a
    record."""

    def write(self) -> dict[str, Any]:
        self._durable_jobs()
        flow_id = self._flow()
        fields = {"payload": Blob(b'{"order_id": 4711}'), "index": ("order_id",)}
        self.enqueue("indexed", "invoices", **fields)
        self.enqueue("remembered", "receipts", tombstone_ms=1000 * HOUR_MS)
        self.finish("receipts")
        matches = Matcher(queue=Condition(in_=("feeds", "invoices")), payload={"order_id": Condition(gte=5000)})
        self.service.limit(Limit(name="large orders", matches=matches, running=1)).wait()
        saved = SavedFilter(name="failed orders", page="jobs", fields={"state": "failed", "queue": "orders"})
        self.service.save_filter(saved).wait()
        rule = AlertRule(name="failures", kind="failures", pattern="orders", threshold=5.0, targets=(TARGET,))
        self.service.set_alert(rule).wait()
        return {"flow": format_id(flow_id), "tombstone": format_id(self.ids.pop("remembered"))}

    def _durable_jobs(self) -> None:
        """Jobs with a stored step and a stream: one sleeps, one waits for a signal and has received another."""
        waits = {
            "sleeping": Wait(name="sleep", kind="sleep", for_ms=5 * HOUR_MS),
            "awaiting": Wait(name="signal:approval", kind="signal", signal="approval", for_ms=50 * HOUR_MS),
        }
        for key, wait in waits.items():
            self.enqueue(key, "payments")
            job = self.take("payments")
            step = StoreStep(id=job.id, token=job.lease_token, name="charge", value=Blob(b'{"charge": "Zo\xc3\xab"}'))
            self.service.store_steps([step]).one().wait()
            values = (Blob(b'"first"'), Blob(b'"second"'))
            self.service.write_stream(
                [StreamWrite(id=job.id, token=job.lease_token, values=values, sequence=0)]
            ).one().wait()
            self.service.suspend([Suspend(id=job.id, token=job.lease_token, waits=(wait,))]).one().wait()
        self.service.signal([Signal(id=self.ids["awaiting"], name="note", value=Blob(b"7"))]).one().wait()

    def _flow(self) -> bytes:
        flow_id, reserve, ship = self.service.store.new_ids(["shipping"] * 3)
        jobs = [
            NewJob(queue="shipping", name="do_reserve", id=reserve, flow=FlowRef(flow_id, "shop", "reserve"),
                   result_ttl_ms=1000 * HOUR_MS),
            NewJob(queue="shipping", name="do_ship", id=ship, flow=FlowRef(flow_id, "shop", "ship"), after=(reserve,)),
        ]  # fmt: skip
        self.service.enqueue(jobs, whole=True).wait()
        self.finish("shipping", Blob(b'"in stock"'))
        self.ids |= {"reserve": reserve, "ship": ship}
        return flow_id


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

    ids: dict[str, bytes] = {}
    Writer(service, ids).write()
    added = Additions(service, ids).write()
    ids["task"] = add.enqueue(2, 3).id_bytes
    token = service.create_token(NewToken(name="deploy", roles=frozenset({Role.PRODUCE}), queues=("mail*",))).wait()
    contents = {
        "written_at_ms": service.now().wait(),
        "token": token.text,
        "jobs": list_contents(service, ids),
        "added": added,
    }
    store.close_sync()
    return contents


def main(version: str = windlass.__version__) -> None:
    path = HERE / f"{version}.tar.gz"
    with tempfile.TemporaryDirectory() as parent:
        directory = Path(parent) / "data"
        contents = {"version": version} | write(directory)
        _wait_for_end(directory)
        _pack(directory, contents, path)
    print(f"Wrote {path.name}, {path.stat().st_size:,} bytes.")


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
    main(*sys.argv[1:2])
