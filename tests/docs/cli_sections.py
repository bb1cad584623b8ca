"""Deployments for the sections of docs/cli.md. Each block starts with a new one, so blocks do not depend on each other.
Ids are those of the page. A new section needs a function here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tests.service.helpers import new, put
from windlass.background.alerts.evaluator import CLAIM_MS, AlertEvaluator
from windlass.core.access.audit import AuditEntry
from windlass.core.access.tokens import NewToken, Role
from windlass.core.alerts.rule import AlertRule
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.durable import StoreStep, StreamWrite, Suspend, Wait
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Callback, Cap, FlowRef, Job, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import ANY_JOB_WITH_STEPS, Fail, Finish, Take, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.core.stats.task_figures import TaskSums, bucket_of
from windlass.service import Service

Prepare = Callable[[Service], None]
HOUR_MS = 3_600_000
WORKER = parse_id("01890a5d-ac96-774b-bcce-b302099a8057")
RUNNING = "01a1e22a-3c79-7000-855c-d2bee2fbecf8"
QUEUED = "01a1e22a-3c79-7000-8583-3263e279df4d"
ALIKE = "01a1e22a-3c78-7000-9b21-7f35c679df4d"  # ends like QUEUED
SCHEDULED = "01a1e22a-4784-7000-8ca4-df1b0081b375"
FAILED = "01a1e22a-3c79-7000-94ee-2c5c50d2d566"
WAITING = "01a1e22a-8a02-7000-9d12-5c27e1a3b004"
REFUSED = {"type": "ConnectionRefusedError", "message": "[Errno 111] Connection refused"}
_TRACEBACK = (
    '{"type":"ConnectionRefusedError","message":"[Errno 111] Connection refused","traceback":"Traceback (most recent '
    'call last):\\n  File \\"/app/mail.py\\", line 12, in send_mail\\n    smtp.connect(host)\\nConnectionRefusedError: '
    '[Errno 111] Connection refused\\n"}'
)


def _take(service: Service, queue: str, most: int = 1, **more: object) -> list[Job]:
    request = Take(queues=(queue,), most=most, wants=ANY_JOB_WITH_STEPS, **more)  # type: ignore[arg-type]
    return service.take(request).wait().jobs


def _fail(service: Service, job: Job, error: str) -> None:
    request = Fail(id=job.id, token=job.lease_token, error=Blob(error.encode()), then="final")
    service.fail([request]).one().wait()


def _mail(**more: object) -> NewJob:
    fields = {"payload": Blob(b'{"order_id":9}'), "retry": Backoff(tries=2), "timeout_ms": 900_000}
    return new("mail", "send_mail", **fields | {"result_ttl_ms": HOUR_MS} | more)


def _register(
    service: Service, queues: tuple[str, ...] = ("mail", "reports"), names: tuple[str, ...] = ("send_mail",)
) -> None:
    info = WorkerInfo(host="box-1", pid=771, queues=queues, names=names, slots=16, name="mailer-1")
    service.register(WORKER, info, beat_ms=HOUR_MS).wait()


def prepare_enqueue(service: Service) -> None:
    _register(service, ("mail",))


def prepare_jobs(service: Service) -> None:
    _register(service, ("mail",))
    put(service, _mail(id=parse_id(FAILED), tags=("shop",)))
    (job,) = _take(service, "mail", worker=WORKER)
    _fail(service, job, _TRACEBACK)
    put(service, _mail(id=parse_id(RUNNING), unique="6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0001"))
    _take(service, "mail", worker=WORKER)
    put(service, _mail(id=parse_id(QUEUED), unique="order-7"))
    time.sleep(0.002)  # lists are in the order of creation, in milliseconds
    put(service, _mail(id=parse_id(SCHEDULED), delay_ms=600_000, retry=Backoff(tries=3)))
    (first,) = put(service, new("later", delay_ms=HOUR_MS))
    put(service, new("later", "send_report", id=parse_id(WAITING), after=(first.id,)))


def prepare_indexed_jobs(service: Service) -> None:
    service.configure("mail", {"index": ("order_id",)}).wait()
    prepare_jobs(service)


def prepare_similar_ids(service: Service) -> None:
    prepare_jobs(service)
    time.sleep(0.002)
    put(service, _mail(id=parse_id(ALIKE)))


def prepare_logs(service: Service) -> None:
    put(service, _mail(id=parse_id(FAILED)))
    (job,) = _take(service, "mail")
    at_ms = 1_795_034_702_114  # as on the page
    lines = [LogLine(at_ms, "info", "page 5 of 8"), LogLine(at_ms + 5806, "warning", "page 6 has no text")]
    service.log([Log(job.id, job.lease_token, lines)]).one().wait()
    service.finish([Finish(job.id, job.lease_token)]).wait()


def prepare_steps(service: Service) -> None:
    put(service, new("orders", "fulfil", id=parse_id(FAILED)))
    (job,) = _take(service, "orders")
    store = StoreStep(id=job.id, token=job.lease_token, name="charge", value=Blob(b'{"receipt":"r-7"}'))
    service.store_steps([store]).one().wait()
    values = tuple(Blob(text) for text in (b'"once"', b'"upon"', b'"a time"'))
    service.write_stream([StreamWrite(id=job.id, token=job.lease_token, values=values, sequence=0)]).one().wait()
    wait = Wait(name="approval", kind="signal", signal="approval", for_ms=69 * HOUR_MS)
    service.suspend([Suspend(id=job.id, token=job.lease_token, waits=(wait,))]).one().wait()


def prepare_stream(service: Service) -> None:
    put(service, new("orders", "fulfil", id=parse_id(FAILED)))
    (job,) = _take(service, "orders")
    values = tuple(Blob(text) for text in (b'"once"', b'"upon"', b'"a time"'))
    service.write_stream([StreamWrite(id=job.id, token=job.lease_token, values=values, sequence=0)]).one().wait()
    service.finish([Finish(job.id, job.lease_token)]).wait()


def prepare_failed_steps(service: Service) -> None:
    put(service, new("orders", "fulfil", id=parse_id(FAILED)))
    (job,) = _take(service, "orders")
    store = StoreStep(id=job.id, token=job.lease_token, name="charge", value=Blob(b'{"receipt":"r-7"}'))
    service.store_steps([store]).one().wait()
    _fail(service, job, "{}")


def prepare_failed(service: Service) -> None:
    text = '{"type":"ConnectionRefusedError","message":"connection refused"}'
    put(service, *(_mail(retry=Backoff(tries=1)) for _ in range(2)))
    for job in _take(service, "mail", most=2):
        _fail(service, job, text)
    put(service, *(new("reports", "report_daily", retry=Backoff(tries=1)) for _ in range(3)))
    for job in _take(service, "reports", most=3):
        _fail(service, job, '{"type":"ValueError","message":"no data for 2026"}')
    _put_flow(service)
    (order,) = _take(service, "shop")
    service.finish([Finish(order.id, order.lease_token)]).wait()
    _fail_payment(service)


FLOW = "01a1ee19-b6d8-7000-89b6-4738dd0b35cf"
STEPS = {
    "order": ("01a1ee19-b6d8-7000-8dfd-2d824b781620", ()),
    "pay": ("01a1ee19-b6d8-7000-b723-ea55f6f2f6df", ("order",)),
    "stock": ("01a1ee19-b6d8-7000-a103-c0087aed5a1e", ("order",)),
    "ship": ("01a1ee19-b6d8-7000-b108-37ddd7a1cfe9", ("pay", "stock")),
    "mail": ("01a1ee19-b6d8-7000-b42b-2378a88700cb", ("ship",)),
}


def _put_flow(service: Service) -> None:
    jobs = [
        new(
            "shop",
            step,
            id=parse_id(key),
            after=tuple(parse_id(STEPS[other][0]) for other in after),
            flow=FlowRef(parse_id(FLOW), "checkout", step),
            retry=Backoff(tries=1),
            priority=place,
            on_failure="fail" if after else "",
        )
        for place, (step, (key, after)) in enumerate(STEPS.items())
    ]
    service.enqueue(jobs, whole=True).wait()


def _fail_payment(service: Service) -> None:
    for job in _take(service, "shop", most=2):
        if job.name == "pay":
            _fail(service, job, '{"type":"ValueError","message":"card declined"}')
        else:
            service.finish([Finish(job.id, job.lease_token)]).wait()


def prepare_flows(service: Service) -> None:
    _put_flow(service)
    (order,) = _take(service, "shop")
    service.finish([Finish(order.id, order.lease_token)]).wait()
    _fail_payment(service)


def prepare_queues(service: Service) -> None:
    _register(service)
    put(service, *(_mail() for _ in range(6)), _mail(delay_ms=600_000))
    done, *_ = _take(service, "mail", most=3, worker=WORKER)
    service.finish([Finish(done.id, done.lease_token)]).wait()


def prepare_empty_queue(service: Service) -> None:
    prepare_queues(service)
    service.configure("mial", {"lease_ms": 60_000}).wait()


def prepare_tasks(service: Service) -> None:
    _register(service, ("mail",))
    sums = TaskSums(queue="mail", name="send_mail", failed=1, retried=2, runs={bucket_of(100): 60})
    service.report_tasks(WORKER, 1, [sums]).wait()
    put(service, _mail(id=parse_id(FAILED), retry=Backoff(tries=1)))
    (job,) = _take(service, "mail", worker=WORKER)
    _fail(service, job, '{"type":"SMTPError","message":"refused"}')


def prepare_paused(service: Service) -> None:
    prepare_queues(service)
    service.pause("mail", reason="provider is down").wait()


def prepare_limits(service: Service) -> None:
    prepare_queues(service)
    name = "downloads per aggregation"
    limit = Limit(name=name, matches=Matcher(queue="downloads"), running=4, key="aggr_id", own_caps=True)
    service.limit(limit).wait()
    payload, cap = Blob(b'{"aggr_id":"beststore"}'), Cap(limit=name, running=4)
    put(service, *(new("downloads", payload=payload, cap=cap) for _ in range(7)))
    _take(service, "downloads", most=4)


def prepare_schedules(service: Service) -> None:
    job = new("reports", "daily_report", payload=Blob(b'{"region":"eu"}'))
    service.schedule(Schedule(name="nightly-report", job=job, cron="30 2 * * MON-FRI", timezone="Europe/Berlin")).wait()


GIVEN_UP = "019e2f10-7ac2-7000-8a21-0c5d1f4b9e33"


def prepare_callbacks(service: Service) -> None:
    callback = Callback(url="https://example.org/hook")
    jobs = [_mail(id=parse_id(GIVEN_UP), callback=callback), *(_mail(callback=callback) for _ in range(2))]
    put(service, *jobs)
    for job in _take(service, "mail", most=3):
        _fail(service, job, "{}")
    for pending in service.take_callbacks().wait().callbacks:
        failed = FailedDelivery(id=pending.id, token=pending.token, error="The receiver answered 503.", give_up=True)
        service.retry_callbacks([failed]).wait()


def prepare_incident(service: Service) -> None:
    service.set_alert(AlertRule(name="idle", kind="no_worker", pattern="mail*")).wait()
    put(service, *(_mail() for _ in range(3)))
    asyncio.run(_evaluate_alerts(service))


async def _evaluate_alerts(service: Service) -> None:
    async with service.store.clone() as store:
        store.clock_offset_ms = CLAIM_MS
        await AlertEvaluator().run_once(Service(store))


def prepare_filters(service: Service) -> None:
    prepare_jobs(service)
    service.save_filter(SavedFilter(name="late mail", page="jobs", fields={"queue": "mail", "state": "failed"})).wait()


def prepare_workers(service: Service) -> None:
    prepare_queues(service)
    put(service, new("reports", "daily_report"))


def prepare_tokens(service: Service) -> None:
    service.create_token(NewToken(name="operator", roles=frozenset({Role.ADMIN}))).wait()
    entries = [
        AuditEntry(who="shop", what="purge_queue", target="mail", outcome="forbidden", peer="10.0.3.9"),
        AuditEntry(who="operator", what="pause_queue", target="mail", peer="10.0.3.7"),
    ]
    service.audit(entries).wait()


# Section of the page, or section and number of a block -> what the blocks start with.
SECTIONS: dict[str, Prepare] = {
    "enqueue": prepare_enqueue,
    "jobs": prepare_jobs,
    "jobs 3": prepare_indexed_jobs,
    "jobs 5": prepare_similar_ids,
    "Watch and logs": prepare_logs,
    "Steps and signals": prepare_steps,
    "Steps and signals 3": prepare_stream,
    "Steps and signals 5": prepare_failed_steps,
    "failed": prepare_failed,
    "flows": prepare_flows,
    "queues": prepare_queues,
    "queues 2": prepare_paused,
    "queues 6": prepare_empty_queue,
    "tasks": prepare_tasks,
    "limits": prepare_limits,
    "schedules": prepare_schedules,
    "callbacks": prepare_callbacks,
    "alerts": prepare_callbacks,
    "alerts 2": prepare_incident,
    "filters": prepare_filters,
    "workers and top": prepare_workers,
    "tokens and audit": prepare_tokens,
    "The rest": prepare_jobs,
}
# A command that is refused on the page -> its exit code.
EXIT_CODES = {"windlass jobs cancel 79df4d": 1}
# First words of a command -> why it is not run.
NOT_RUN = {
    "windlass worker": "it runs until it is stopped",
    "windlass serve": "it runs until it is stopped",
    "windlass processor": "it reads messages until its input ends",
    "windlass engine": "it changes users or files of an engine; tests/cli/engine/test_engine_command.py runs it",
    "windlass jobs watch": "its job ends while it runs; tests/cli/live/test_watch_command.py runs it",
    "windlass backup": "its engine is private, its target another one; tests/cli/transfer runs it",
    "windlass import": "its target is another engine; tests/cli/transfer/test_export_import.py runs it",
    "windlass migrate": "its source is the Redis of another program; tests/migration runs it",
    "windlass doctor": "the test engine keeps no append-only file; tests/cli/engine/test_doctor_command.py runs it",
    "windlass config": "it shows the settings of the machine; tests/cli/test_config.py runs it",
    "windlass completion": "it writes into the home directory",
    "windlass top": "its rates depend on the clock; tests/cli/test_top_command.py runs it",
    "windlass queues scale": "the number depends on the rates of the last minute",
    "windlass jobs show 4711": "the number of a job is of the deployment",
}
