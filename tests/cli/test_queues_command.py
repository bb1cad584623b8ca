"""windlass queues: lists, details, pauses, properties, purges."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, take
from tests.support.console import run, run_ok
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Finish, WorkerInfo
from windlass.core.queue import FOREVER_MS
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def test_ls(service: Service) -> None:
    put(service, new("mail"), new("mail", delay_ms=60_000), new("other"))
    take(service, "mail")
    service.pause("other").wait()
    mail, other = run_ok(service, "queues", "ls").rows
    assert mail[:8] == ["mail", "0", "1", "0", "1", "0", "", ""]
    assert (other[0], other[1], other[7]) == ("other", "1", "paused")
    first, second = run_ok(service, "queues", "ls", "--json").lines
    assert (first["queue"], first["running"], second["is_paused"]) == ("mail", 1, True)


def test_ls_prints_many_queues_in_parts(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.cli.commands.queues.ROWS_TOGETHER", 600)
    names = [f"q{number:04}" for number in range(1_100)]
    put(service, *(new(name) for name in names[:550]))
    put(service, *(new(name) for name in names[550:]))
    assert [row[0] for row in run_ok(service, "queues", "ls").rows] == names
    assert [line["queue"] for line in run_ok(service, "queues", "ls", "--json").lines] == names


def test_empty_lists(service: Service) -> None:
    for arguments in (("queues", "ls"), ("jobs", "ls"), ("limits", "ls"), ("schedules", "ls"), ("workers", "ls")):
        assert run_ok(service, *arguments).out == ""
        assert run_ok(service, *arguments, "--json").out == ""


def test_show(service: Service) -> None:
    put(service, new("mail"), new("mail"), new("mail"))
    (done, failed) = take(service, "mail", most=2)
    service.finish([Finish(done.id, done.lease_token)]).wait()
    service.fail([Fail(id=failed.id, token=failed.lease_token)]).wait()
    service.pause("mail", lane="slow", reason="provider is down").wait()
    service.configure("mail", {"retention_ms": FOREVER_MS}).wait()
    service.set_weights("mail", {"gold": 3}).wait()
    service.limit(Limit(name="mine", matches=Matcher(queue="mail"), rate=5, per_ms=60_000, key="to")).wait()
    service.limit(Limit(name="other", matches=Matcher(queue="other"), running=1)).wait()
    lines = [" ".join(line.split()) for line in run_ok(service, "queues", "show", "mail").out.splitlines()]
    for line in (
        "mail", "queued 1", "failed 1", "retention forever *", "lease 30s",
        "weight of gold 3", "mine 5 per 1m, each to, of queue=mail",
    ):  # fmt: skip
        assert line in lines
    assert any(line.startswith("enqueued ") and line.endswith(", 3") for line in lines)
    assert any(line.startswith("lane slow since ") and line.endswith(": provider is down") for line in lines)
    assert not any("other" in line for line in lines)
    document = run_ok(service, "queues", "show", "mail", "--json").document
    assert (document["stats"]["queued"], document["last_hour"]["taken"], document["weights"]) == (1, 2, {"gold": 3})
    assert document["configuration"]["retention_ms"] == FOREVER_MS


def test_show_reports_names_that_no_worker_knows(service: Service) -> None:
    put(service, new("mail", "send_mial"))
    assert "No worker" not in run_ok(service, "queues", "show", "mail").out
    service.store.clock_offset_ms += 5_001
    service.register(b"w" * 16, WorkerInfo(queues=("mail",), names=("send_mail",))).wait()
    sentence = 'No worker has a task called "send_mial"; did you mean "send_mail"?'
    assert sentence in run_ok(service, "queues", "show", "mail").out.splitlines()
    assert run_ok(service, "queues", "show", "mail", "--json").document["unknown_names"] == [
        {"name": "send_mial", "suggestion": "send_mail", "sentence": sentence}
    ]


def test_scale(service: Service) -> None:
    put(service, *(new("mail") for _ in range(25)))
    assert run_ok(service, "queues", "scale", "mail").out == "3\n"
    assert run_ok(service, "queues", "scale", "mail", "--target", "5", "--max", "4").out == "4\n"
    assert run_ok(service, "queues", "scale", "unknown", "--min", "2").out == "2\n"
    document = run_ok(service, "queues", "scale", "mail", "--slots", "2", "--target-age", "1m", "--json").document
    assert (document["workers"], document["backlog"], document["running"]) == (2, 25, 0)
    refused = run(service, "queues", "scale", "mail", "--min", "5", "--max", "4")
    assert (refused.code, "min must not be greater than max" in refused.err) == (1, True)


def test_pause_and_resume(service: Service) -> None:
    put(service, new("mail"))
    assert run_ok(service, "queues", "pause", "mail", "--reason", "why not").out == "Queue mail is paused.\n"
    assert run_ok(service, "queues", "pause", "mail").out == "Queue mail was already paused.\n"
    assert take(service, "mail") == []
    assert run_ok(service, "queues", "resume", "mail").out == "Queue mail is resumed.\n"
    assert run_ok(service, "queues", "resume", "mail").out == "Queue mail was not paused.\n"
    assert len(take(service, "mail")) == 1


def test_pause_a_lane_or_a_name(service: Service) -> None:
    run_ok(service, "queues", "configure", "mail", "--name-lanes")
    run_ok(service, "queues", "pause", "mail", "--lane", "slow")
    run_ok(service, "queues", "pause", "mail", "--name", "report")
    assert {(pause.lane, pause.name) for pause in service.pauses("mail").wait()} == {("slow", ""), ("", "report")}
    run_ok(service, "queues", "resume", "mail", "--lane", "slow")
    assert {(pause.lane, pause.name) for pause in service.pauses("mail").wait()} == {("", "report")}
    assert run(service, "queues", "pause", "mail", "--lane", "a", "--name", "b").code == 1


def test_purge_deletes_only_jobs_that_have_not_started(service: Service) -> None:
    put(service, new(), new())
    running, failed = take(service, most=2)
    service.fail([Fail(id=failed.id, token=failed.lease_token)]).wait()
    put(service, new("other"))
    put(service, *(new(lane="l" if at % 2 else "") for at in range(1_100)), new(delay_ms=60_000))
    put(service, new(after=(running.id,)))
    assert run_ok(service, "queues", "purge", "q", "--yes").out == "Deleted 1,102 jobs.\n"
    assert counts(service) == {"running": 1, "failed": 1}
    assert counts(service, "other") == {"queued": 1}
    assert "No jobs of queue q to delete." in run_ok(service, "queues", "purge", "q", "--yes").err


def test_purge_keeps_jobs_that_arrive_later(service: Service) -> None:
    put(service, new(), new())
    service.store.clock_offset_ms = 3_600_000
    put(service, new(name="later"))
    assert run_ok(service, "queues", "purge", "q", "--yes").out == "Deleted 2 jobs.\n"
    assert [job.name for job in take(service, most=9)] == ["later"]


def test_purge_of_one_state_needs_confirmation(service: Service) -> None:
    put(service, new(), new(delay_ms=60_000))
    refused = run(service, "queues", "purge", "q")
    assert refused.code == 2
    assert "Delete 2 jobs of queue q" in refused.err
    assert run_ok(service, "queues", "purge", "q", "-y", "--state", "scheduled").out == "Deleted 1 job.\n"
    assert counts(service) == {"queued": 1}


def test_configure(service: Service) -> None:
    options = "--lease 1m --max-length 10 --max-bytes 16MiB --history-length 5 --history-bytes 512KiB"
    more = "--retention forever --name-lanes --aging 30s --fair-share --weight gold=3"
    out = run_ok(service, "queues", "configure", "q", *f"{options} {more}".split()).out
    assert "lease           1m *" in out
    found = service.configuration("q").wait()
    assert (found.lease_ms, found.max_length, found.max_bytes) == (60_000, 10, 16 * 1024**2)
    assert (found.history_length, found.history_bytes, found.retention_ms) == (5, 512 * 1024, FOREVER_MS)
    assert (found.name_lanes, found.aging_ms, found.fair_share) == (True, 30_000, True)
    assert service.set_weights("q", {}).wait() == {"gold": 3}
    run_ok(service, "queues", "configure", "q", "--no-fair-share", "--default", "lease", "--default", "history-bytes")
    found = service.configuration("q").wait()
    assert (found.lease_ms, found.history_bytes, found.fair_share, found.max_length) == (
        30_000,
        16 * 1024**2,
        False,
        10,
    )


def test_indexed_fields(service: Service) -> None:
    out = run_ok(service, "queues", "configure", "orders", "--index", "order_id", "--index", "customer.email").out
    assert "index           order_id, customer.email *" in out
    assert service.configuration("orders").wait().index == ("order_id", "customer.email")
    assert "customer.email" in run_ok(service, "queues", "configure", "orders", "--lease", "1m").out
    assert "index           none\n" in run_ok(service, "queues", "configure", "orders", "--default", "index").out
    assert run(service, "queues", "configure", "orders", "--index", "a..b").code == 1


def test_lease_renewal(service: Service) -> None:
    assert "lease-renewal   no\n" in run(service, "queues", "show", "job_queue_mail").out
    out = run_ok(service, "queues", "configure", "job_queue_mail", "--lease-renewal").out
    assert "lease-renewal   yes *" in out
    assert service.configuration("job_queue_mail").wait().lease_renewal
    assert "lease-renewal   no *" in run_ok(service, "queues", "configure", "q", "--no-lease-renewal").out
    out = run_ok(service, "queues", "configure", "q", "--default", "lease-renewal").out
    assert "lease-renewal   yes\n" in out


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--default", "nonsense"),
        ("--max-bytes", "many"),
        ("--max-bytes", "1TB"),
        ("--weight", "gold"),
        ("--weight", "gold=x"),
        ("--retention", "always"),
        ("--max-length", "-1"),
    ],
)
def test_refuses_invalid_properties(service: Service, options: tuple[str, ...]) -> None:
    assert run(service, "queues", "configure", "q", *options).code == 2
    assert service.queues().wait() == []


# Queues that do not exist, and removal


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("queues", "show", "mial"), 1),
        (("queues", "purge", "mial", "--yes"), 1),
        (("queues", "rm", "mial", "--yes"), 1),
        (("queues", "pause", "mial"), 0),
        (("queues", "resume", "mial"), 0),
        (("queues", "configure", "mial", "--lease", "5s"), 0),
        (("jobs", "ls", "-q", "mial"), 0),
        (("failed", "ls", "-q", "mial"), 0),
        (("failed", "groups", "-q", "mial"), 0),
        (("failed", "retry", "-q", "mial", "--yes"), 0),
        (("failed", "delete", "-q", "mial", "--yes"), 0),
        (("jobs", "awaited", "-q", "mial"), 0),
        (("queues", "scale", "mial"), 0),
        (("schedules", "add", "poll", "--every", "1h", "--queue", "mial", "--job", "n", "--dry-run"), 0),
    ],
)
def test_a_queue_that_does_not_exist_is_reported(service: Service, arguments: tuple[str, ...], code: int) -> None:
    put(service, new("mail"))
    done = run(service, *arguments)
    assert (done.code, done.err.splitlines()[0]) == (code, 'Queue "mial" does not exist; did you mean "mail"?')
    again = run(service, *(word.replace("mial", "mail") for word in arguments))
    assert "does not exist" not in again.err


def test_commands_that_act_before_the_first_job_still_act(service: Service) -> None:
    run_ok(service, "queues", "configure", "mial", "--lease", "5s")
    assert service.configuration("mial").wait().lease_ms == 5_000
    assert run_ok(service, "queues", "pause", "mial").err == "", "it exists now"


def test_rm(service: Service) -> None:
    service.configure("mail", {"lease_ms": 5_000}).wait()
    refused = run(service, "queues", "rm", "mail")
    assert (refused.code, service.queues().wait()) == (2, ["mail"])
    assert "Remove queue mail with its properties and history? There is no terminal" in refused.err
    assert run_ok(service, "queues", "rm", "mail", "-y").out == "Queue mail is removed.\n"
    assert service.queues().wait() == []


def test_rm_of_a_queue_in_use(service: Service) -> None:
    service.register(b"w" * 16, WorkerInfo(queues=("mail",)), beat_ms=600_000).wait()
    service.configure("mail", {"lease_ms": 5_000}).wait()
    refused = run(service, "queues", "rm", "mail", "--yes")
    assert refused.code == 1
    assert "1 live worker serves the queue mail" in refused.err
    put(service, new("mail"))
    refused = run(service, "queues", "rm", "mail", "--yes", "--force")
    assert (refused.code, counts(service, "mail")) == (1, {"queued": 1})
    assert "The queue mail holds 1 job. `windlass queues purge`" in refused.err
    run_ok(service, "queues", "purge", "mail", "--yes")
    assert run_ok(service, "queues", "rm", "mail", "--yes", "--force").out == "Queue mail is removed.\n"
