"""A working call of each command, with the data that it needs. A command without a case must be in LOCAL."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.migration.source_redis import SourceRedis
from tests.service.durable.builders import HOUR_MS, start, store, suspend, wait_for
from tests.service.flows.flow_builders import put_flow
from tests.service.helpers import new, put, take
from windlass.core.access.tokens import NewToken, Role
from windlass.core.alerts.rule import AlertRule
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.durable import StreamWrite
from windlass.core.export.backup import seal
from windlass.core.export.backup_point import BackupPoint
from windlass.core.export.lines import QueueLine, decode_header, encode_line
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.ids import format_id, make_id
from windlass.core.job import Blob, Callback
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.core.stats.task_figures import TaskSums, bucket_of
from windlass.service import Service

# Commands that run something on this machine, or need nothing but this machine.
LOCAL = {
    "serve": "it is the server",
    "worker": "tests/sdk/remote/test_remote_workers.py runs it over a server",
    "processor": "it assigns jobs within the engine, for one pipe",
    "backup verify": "it reads a file",
    "engine format": "it decides which programs may use an engine",
    "engine check": "it reads the files of the embedded engine",
    "engine prepare": "it prepares an engine for its users",
    "engine repair": "it repairs the files of the embedded engine",
    "completion": "it needs no deployment",
}


class Target(NamedTuple):
    """Deployment that the command changes, a folder for files, and the URL of a Redis to move jobs from."""

    service: Service
    folder: Path
    source_url: str


def _queued(place: Target) -> str:
    return format_id(put(place.service, new(priority=-5))[0].id)


def _failed(place: Target) -> str:
    put(place.service, new("failing", retry=Backoff(tries=1)))
    (job,) = take(place.service, "failing")
    error = Blob(b'{"type":"OSError","message":"refused"}')
    place.service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).wait()
    return job.key


def _suspended(place: Target) -> str:
    job = start(place.service)
    store(place.service, job, "charge", b'{"receipt":"r-7"}')
    suspend(place.service, job, wait_for("approval", HOUR_MS))
    return job.key


def _streaming(place: Target) -> str:
    put(place.service, new("streams"))
    (job,) = take(place.service, "streams")
    write = StreamWrite(id=job.id, token=job.lease_token, values=(Blob(b'"once"'),), sequence=0)
    place.service.write_stream([write]).one().wait()
    place.service.finish([Finish(job.id, job.lease_token)]).wait()
    return job.key


def _waiting(place: Target) -> str:
    (first,) = put(place.service, new("chain"))
    return format_id(put(place.service, new("chain", after=(first.id,)))[0].id)


def _flow(place: Target) -> str:
    return format_id(put_flow(place.service, {"order": (), "pay": ("order",)})[0])


def _failed_flow(place: Target) -> str:
    key = _flow(place)
    (job,) = take(place.service)
    place.service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).wait()
    return key


def _given_up(place: Target) -> str:
    put(place.service, new("calls", callback=Callback(url="https://example.org/x")))
    (job,) = take(place.service, "calls")
    place.service.finish([Finish(job.id, job.lease_token)]).wait()
    (callback,) = place.service.take_callbacks().wait().callbacks
    delivery = FailedDelivery(id=callback.id, token=callback.token, error="no", give_up=True)
    place.service.retry_callbacks([delivery]).wait()
    return callback.key


def _schedule(place: Target) -> str:
    place.service.schedule(Schedule(name="nightly", job=new(), every_ms=86_400_000)).wait()
    return "nightly"


def _limit(place: Target) -> str:
    limit = Limit(name="customers", matches=Matcher(queue="q"), running=1, key="customer", own_caps=True)
    place.service.limit(limit).wait()
    return "customers"


def _job_of_anna(place: Target) -> str:
    put(place.service, new(payload=Blob(b'{"customer":"anna"}')))
    return "anna"


def _worker(place: Target) -> str:
    worker = make_id(1_700_000_000_000, 0, 7)
    place.service.register(worker, WorkerInfo(host="h", name="mailer", queues=("q",)), beat_ms=HOUR_MS).wait()
    return format_id(worker)


def _token(place: Target) -> str:
    place.service.create_token(NewToken(name="shop", roles=frozenset({Role.READ}))).wait()
    return "shop"


def _alert(place: Target) -> str:
    rule = AlertRule(name="slow", kind="failures", pattern="q", targets=("https://example.org/x",))
    place.service.set_alert(rule).wait()
    return rule.name


def _filter(place: Target) -> str:
    place.service.save_filter(SavedFilter(name="late mail", page="jobs", fields={"queue": "q"})).wait()
    return "late mail"


def _task(place: Target) -> str:
    worker = make_id(1_700_000_000_000, 0, 7)
    place.service.register(worker, WorkerInfo(name="mailer", queues=("q",), names=("send",)), beat_ms=HOUR_MS).wait()
    sums = TaskSums(queue="q", name="send", failed=1, runs={bucket_of(100): 60})
    place.service.report_tasks(worker, 1, [sums]).wait()
    return "send"


def _empty_queue(place: Target) -> str:
    place.service.configure("unused", {"name_lanes": True}).wait()
    return "unused"


def _logging(place: Target) -> str:
    put(place.service, new("logs"))
    (job,) = take(place.service, "logs")
    lines = [LogLine(at_ms=1_700_000_000_000, level="info", text="connecting")]
    place.service.log([Log(job.id, job.lease_token, lines)]).one().wait()
    return job.key


def _finished(place: Target) -> str:
    put(place.service, new("ends", result_ttl_ms=HOUR_MS))
    (job,) = take(place.service, "ends")
    place.service.finish([Finish(job.id, job.lease_token, Blob(b'{"sent":3}'))]).one().wait()
    return job.key


def _export_file(place: Target) -> str:
    file = place.folder / "all.jsonl"
    _queued(place)
    file.write_bytes(b"".join(place.service.export()))
    return str(file)


def _backup_file(place: Target) -> str:
    """Write a backup of the deployment while it is empty, with a queue."""
    file = place.folder / "backup.jsonl"
    header, *_, end = place.service.export()
    point = BackupPoint(at_ms=1, engine="valkey")
    lines = [encode_line(QueueLine(name="q")), end.replace(b'"queue":0', b'"queue":1')]
    file.write_bytes(b"".join(seal(decode_header(header), lines, point)))
    return str(file)


def _jobber_source(place: Target) -> str:
    entry = {"id": f"{1:08x}-1111-4222-8333-{1:012x}", "type": "mail", "payload": 1}
    _call_source(place, "LPUSH", "job_queue_mail", json.dumps(entry))
    return place.source_url


def _processor_source(place: Target) -> str:
    uuid = "00000001-0000-4000-8000-000000000000"
    job = {"uuid": uuid, "queue_name": "convert", "command": "resize", "args": [1]}
    _call_source(place, "HSET", uuid, "json", json.dumps(job))
    _call_source(place, "LPUSH", "jobs_queued:convert", uuid)
    return place.source_url


def _downloader_source(place: Target) -> str:
    fields = ("aggr_id", "shop", "url", "http://127.0.0.1:9/a.jpg", "callback_url", "http://127.0.0.1:9/done")
    for download in ("new-1", "done-1"):
        _call_source(place, "HSET", f"job:{download}", "id", download, *fields)
    _call_source(place, "HSET", "job:done-1", "download_state", "Success")
    _call_source(place, "HSET", "aggr:shop", "id", "shop", "limit", "2")
    _call_source(place, "ZADD", "jobs:shop", "1700000000", "new-1")
    _call_source(place, "ZADD", "callbackQueue", "1700000000", "done-1")
    return place.source_url


def _call_source(place: Target, *command: str) -> None:
    source = SourceRedis(place.source_url)
    source.call(*command)
    source.close()


def _data(place: Target) -> None:
    """Fill the deployment with something for each list."""
    for make in (_suspended, _queued, _failed, _schedule, _limit, _worker, _given_up):
        make(place)


Case = Callable[[Target], Sequence[str]]
CASES: dict[str, Case] = {
    "enqueue": lambda place: ["mail", "send", "[1]"],
    "jobs awaited": lambda place: [_suspended(place)][1:],
    "jobs cancel": lambda place: [_queued(place)],
    "jobs delete": lambda place: [_queued(place), "--yes"],
    "jobs edit": lambda place: [_queued(place), "--priority", "3"],
    "jobs explain": lambda place: [_queued(place)],
    "jobs logs": lambda place: [_logging(place)],
    "jobs ls": lambda place: [_data(place) or "--json"],
    "jobs requeue": lambda place: [_failed(place)],
    "jobs retry": lambda place: [_failed(place)],
    "jobs rewind": lambda place: [_suspended(place), "--step", "charge", "--yes"],
    "jobs show": lambda place: [_failed(place)],
    "jobs signal": lambda place: [_suspended(place), "approval", "true"],
    "jobs signal-url": lambda place: [_suspended(place), "approval"],
    "jobs steps": lambda place: [_suspended(place)],
    "jobs stream": lambda place: [_streaming(place)],
    "jobs wake": lambda place: [_waiting(place)],
    "jobs watch": lambda place: [_finished(place)],
    "failed delete": lambda place: [_failed(place) and "--yes"],
    "failed groups": lambda place: [_failed(place) and "--json"],
    "failed ls": lambda place: [_failed(place) and "--json"],
    "failed retry": lambda place: [_failed(place) and "--yes"],
    "flows cancel": lambda place: [_flow(place)],
    "flows ls": lambda place: [_failed_flow(place) and "--json"],
    "flows rerun": lambda place: [_failed_flow(place)],
    "flows resume": lambda place: [_failed_flow(place)],
    "flows show": lambda place: [_failed_flow(place)],
    "queues configure": lambda place: ["q", "--lease", "1m", "--weight", "gold=3"],
    "queues ls": lambda place: [_data(place) or "--json"],
    "queues pause": lambda place: ["q", "--reason", "down"],
    "queues purge": lambda place: ["q", _queued(place) and "--yes"],
    "queues resume": lambda place: ["q"],
    "queues rm": lambda place: [_empty_queue(place), "--yes"],
    "queues scale": lambda place: ["q"],
    "queues show": lambda place: ["q", _data(place) or "--json"],
    "limits cap": lambda place: [_limit(place), _job_of_anna(place), "--running", "2"],
    "limits ls": lambda place: [_limit(place) and "--json"],
    "limits rm": lambda place: [_limit(place)],
    "limits set": lambda place: ["mail", "--queue", "q", "--running", "2"],
    "schedules add": lambda place: ["poll", "--every", "10m", "--queue", "q", "--job", "n"],
    "schedules edit": lambda place: [_schedule(place), "--every", "1h", "--priority", "-5"],
    "schedules ls": lambda place: [_schedule(place) and "--json"],
    "schedules pause": lambda place: [_schedule(place), "--reason", "holidays"],
    "schedules resume": lambda place: [_schedule(place)],
    "schedules rm": lambda place: [_schedule(place), "--yes"],
    "schedules run": lambda place: [_schedule(place)],
    "schedules show": lambda place: [_schedule(place), "--json"],
    "tasks ls": lambda place: [_task(place) and "--json"],
    "tasks show": lambda place: [_task(place)],
    "filters ls": lambda place: [_filter(place) and "--json"],
    "filters rm": lambda place: [_filter(place)],
    "alerts ls": lambda place: [_alert(place) and "--json"],
    "alerts mute": lambda place: [_alert(place), "--for", "2h"],
    "alerts rm": lambda place: [_alert(place)],
    "alerts set": lambda place: ["slow", "--kind", "failures", "--queue", "q"],
    "alerts test": lambda place: [_alert(place)],
    "callbacks ls": lambda place: [_given_up(place) and "--given-up", "--json"],
    "callbacks redeliver": lambda place: [_given_up(place)],
    "workers ls": lambda place: [_worker(place) and "--json"],
    "workers stop": lambda place: [_worker(place)],
    "top": lambda place: [_data(place) or "--once"],
    "tokens create": lambda place: ["shop", "--role", "produce"],
    "tokens ls": lambda place: [_token(place) and "--json"],
    "tokens rm": lambda place: [_token(place)],
    "audit": lambda place: ["--json"],
    "doctor": lambda place: ["--repair"],
    "backup create": lambda place: [str(place.folder / "backup.jsonl.gz"), "--live"],
    "backup restore": lambda place: [_backup_file(place)],
    "export": lambda place: [str(place.folder / "out.jsonl.gz")],
    "import": lambda place: [_export_file(place), "--merge"],
    "migrate downloader": lambda place: ["--from", _downloader_source(place)],
    "migrate jobber": lambda place: ["--from", _jobber_source(place)],
    "migrate processor": lambda place: ["--from", _processor_source(place)],
    "config": lambda place: [],
}
