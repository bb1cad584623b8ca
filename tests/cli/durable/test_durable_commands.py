"""windlass jobs steps, signal, signal-url, rewind, awaited and retry --fresh; suspended jobs in lists and counts."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

import pytest

from tests.service.durable.builders import HOUR_MS, send, sleep, start, state_of, steps_of, store, suspend, wait_for
from tests.service.helpers import new, put, read
from tests.support.console import CliResult, environment, run, run_ok, run_with_settings
from tests.support.threaded_server import threaded_server
from windlass.core.durable import Wait
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail
from windlass.service import Service
from windlass.settings import Settings

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
UNKNOWN = "01a1e21f-2249-7000-aad3-893cc7fff097"
SERVER = "https://jobs.example.com/w"


def suspended(service: Service, *waits: Wait, **kw: Any) -> Job:
    job = start(service, **kw)
    suspend(service, job, *(waits or (wait_for("approval", HOUR_MS),)))
    return job


def failed(service: Service, *steps: str) -> Job:
    job = start(service)
    for name in steps:
        store(service, job, name)
    service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one().wait()
    return job


# steps


def test_steps_shows_steps_waits_and_unread_signals(service: Service) -> None:
    job = start(service)
    store(service, job, "charge", b'{"receipt": "r-7"}')
    send(service, job, "address", b'"Main Street"')
    suspend(service, job, wait_for("approval", HOUR_MS), sleep(HOUR_MS, "nap"))
    out = run_ok(service, "jobs", "steps", job.key).out
    title, summary, charge, approval, nap, *rest = out.splitlines()
    assert (title.split()[0], title.split()[-1], summary[:13]) == (job.key, "suspended", "Suspended for")
    assert charge.split("\t")[:4] == ["charge", "step", "done", "1"]
    assert charge.split("\t")[-1] == '{"receipt":"r-7"}'
    assert (approval.split("\t")[2], approval.split("\t")[-1]) == ("waiting", "waits for signal approval")
    assert (nap.split("\t")[:3], nap.split("\t")[-2] != "") == (["nap", "sleep", "waiting"], True)
    assert rest[1] == "Unread signals"
    assert rest[2].split("\t")[::2] == ["address", '"Main Street"']


def test_steps_as_json(service: Service) -> None:
    job = suspended(service)
    found = run_ok(service, "jobs", "steps", job.key, "--json").document
    [step] = found["steps"]
    assert (found["id"], found["state"], found["waits"]) == (job.key, "suspended", ["signal:approval"])
    assert (step["kind"], step["status"], step["signal"], step["value"]) == ("signal", "waiting", "approval", None)


def test_steps_of_a_job_without_any(service: Service) -> None:
    put(service, new(unique="order-7"))
    assert "No steps." in run_ok(service, "jobs", "steps", "order-7").out
    assert run(service, "jobs", "steps", UNKNOWN).code == 1


def test_show_has_the_steps_of_a_durable_job(service: Service) -> None:
    job = suspended(service)
    assert "waits for signal approval" in run_ok(service, "jobs", "show", job.key).out
    assert run_ok(service, "jobs", "show", job.key, "--json").document["durable"]["waits"] == ["signal:approval"]
    put(service, new(unique="plain"))
    assert run_ok(service, "jobs", "show", "plain", "--json").document["durable"] is None


# signal


def test_signal_answers_a_job(service: Service) -> None:
    job = suspended(service)
    result = run_ok(service, "jobs", "signal", job.key, "approval", '{"approved": true}')
    assert result.rows == [[job.key, "received"]]
    assert steps_of(service, job)["signal:approval"].value == Blob(b'{"approved": true}')
    assert run_ok(service, "jobs", "signal", job.key, "approval").rows == [[job.key, "kept"]]
    assert [signal.value for signal in state_of(service, job).signals] == [Blob(b"null")]


def test_signal_reads_standard_input_and_other_names(service: Service) -> None:
    job = suspended(service, unique="order-7")
    assert run(service, "jobs", "signal", "order-7", "approval", "-", given=b"[1]").code == 0
    assert steps_of(service, job)["signal:approval"].value == Blob(b"[1]")


@pytest.mark.parametrize("value", ["{", "approved", "@/does/not/exist"])
def test_signal_refuses_what_is_not_json(service: Service, value: str) -> None:
    job = suspended(service)
    assert run(service, "jobs", "signal", job.key, "approval", value).code == 2
    assert state_of(service, job).signals == ()


def test_signal_to_an_ended_or_unknown_job_fails(service: Service) -> None:
    job = failed(service)
    assert run(service, "jobs", "signal", job.key, "approval", "1").code == 1
    assert run(service, "jobs", "signal", UNKNOWN, "approval", "1").code == 1


# signal-url


def test_signal_url_needs_a_server(service: Service) -> None:
    job = suspended(service)
    assert "--server" in run(service, "jobs", "signal-url", job.key, "approval").err
    url = run_ok(service, "jobs", "signal-url", job.key, "approval", "--expires", "3d", "--server", SERVER).out.strip()
    assert url.startswith(f"{SERVER}/signals/")
    link = service.read_signal_link(url.rpartition("/")[2]).wait()
    assert link is not None
    assert (link.job_id, link.signal) == (job.id, "approval")
    assert abs(link.expires_at_ms - service.now().wait() - 3 * 86_400_000) < 60_000


def test_signal_url_with_the_setting(service: Service) -> None:
    job = suspended(service)
    given = environment(service) | {"WINDLASS_PUBLIC_URL": SERVER}
    assert run_with_settings("jobs", "signal-url", job.key, "approval", settings=given).out.startswith(
        f"{SERVER}/signals/"
    )


@pytest.mark.parametrize("options", [("--server", "nonsense"), ("--expires", "soon")])
def test_signal_url_refuses_bad_options(service: Service, options: tuple[str, ...]) -> None:
    job = suspended(service)
    assert run(service, "jobs", "signal-url", job.key, "approval", *options).code == 2


# rewind and retry


def test_rewind_drops_later_steps(service: Service) -> None:
    job = failed(service, "a", "b", "c")
    assert "dropped 2 steps" in run_ok(service, "jobs", "rewind", job.key, "--step", "b", "--yes").out
    assert (list(steps_of(service, job)), read(service, job.id).state.label) == (["a"], "failed")


def test_rewind_and_run(service: Service) -> None:
    job = failed(service, "a", "b")
    run_ok(service, "jobs", "rewind", job.key, "--all", "--run", "--yes")
    assert (list(steps_of(service, job)), read(service, job.id).state.label) == ([], "queued")
    other = suspended(service)
    run_ok(service, "jobs", "rewind", other.key, "--all", "--run", "--yes")
    assert read(service, other.id).state.label == "queued"


def test_rewind_needs_a_step_and_a_confirmation(service: Service) -> None:
    job = failed(service, "a")
    for options in ((), ("--step", "a", "--all", "--yes"), ("--yes",), ("--step", "a")):
        assert run(service, "jobs", "rewind", job.key, *options).code == 2
    assert run(service, "jobs", "rewind", job.key, "--step", "z", "--yes").code == 1
    assert list(steps_of(service, job)) == ["a"]


def test_retry_keeps_steps_unless_fresh(service: Service) -> None:
    kept, dropped = failed(service, "a"), failed(service, "a")
    run_ok(service, "jobs", "retry", kept.key)
    run_ok(service, "jobs", "retry", dropped.key, "--fresh")
    assert (list(steps_of(service, kept)), list(steps_of(service, dropped))) == (["a"], [])
    assert {read(service, job.id).state.label for job in (kept, dropped)} == {"queued"}


# awaited, lists and counts


def test_awaited_lists_open_signals(service: Service) -> None:
    first = suspended(service, wait_for("approval", HOUR_MS), sleep(HOUR_MS))
    both = suspended(service, wait_for("approval"), wait_for("refund"))
    suspended(service, sleep(HOUR_MS))
    rows = run_ok(service, "jobs", "awaited").rows
    assert sorted((row[0], row[3]) for row in rows) == sorted(
        [(first.key, "approval"), (both.key, "approval"), (both.key, "refund")]
    )
    assert [row[0] for row in run_ok(service, "jobs", "awaited", "--signal", "refund").rows] == [both.key]
    assert run_ok(service, "jobs", "awaited", "--queue", "other").rows == []
    limited = run_ok(service, "jobs", "awaited", "--limit", "2")
    assert (len(limited.rows), "--limit 0" in limited.err) == (2, True)
    [found] = run_ok(service, "jobs", "awaited", "--signal", "refund", "--json").lines
    assert (found["id"], found["signal"], found["times_out_at_ms"]) == (both.key, "refund", None)


def test_suspended_jobs_are_listed_and_counted(service: Service) -> None:
    job = suspended(service)
    assert [row[0] for row in run_ok(service, "jobs", "ls", "--state", "suspended").rows] == [job.key]
    assert [row[3] for row in run_ok(service, "jobs", "ls").rows] == ["suspended"]
    [counts] = run_ok(service, "queues", "ls", "--json").lines
    assert counts["suspended"] == 1
    assert run_ok(service, "queues", "ls").rows[0][-1] == "1"
    assert "suspended" in run_ok(service, "queues", "show", job.queue).out


# Over HTTP


def test_the_commands_work_over_http(service: Service) -> None:
    job, ended = suspended(service), failed(service, "a", "b")
    with threaded_server(service.store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as server_url:
        settings = {"WINDLASS_URL": server_url}

        def call(*arguments: str) -> CliResult:
            result = run_with_settings("jobs", *arguments, settings=settings)
            assert result.code == 0, result
            return result

        assert [row[0] for row in call("awaited").rows] == [job.key]
        assert call("steps", job.key, "--json").document["waits"] == ["signal:approval"]
        url = call("signal-url", job.key, "approval").out.strip()
        assert url.startswith(f"{server_url}/signals/")
        with urlopen(url) as page:  # noqa: S310 (our own server)
            assert page.status == 200
        assert call("signal", job.key, "approval", "1").rows == [[job.key, "received"]]
        assert "dropped 1 step" in call("rewind", ended.key, "--step", "b", "--yes").out
        assert call("retry", ended.key, "--fresh").rows == [[ended.key, "queued"]]
        assert json.loads(call("steps", ended.key, "--json").out)["steps"] == []
