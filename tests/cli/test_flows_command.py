"""windlass flows: lists, details, resume, cancel and rerun; and the repair of flows by other commands."""

from __future__ import annotations

import msgspec
import pytest

from tests.service.flows.flow_builders import put_flow, read_flow, states_of
from tests.service.helpers import new, put, take
from tests.support.console import CliResult, run, run_ok, run_with_settings
from tests.support.threaded_server import threaded_server
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, FlowRef
from windlass.core.operations import Fail, Finish
from windlass.service import Service
from windlass.settings import Settings

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

UNKNOWN = "01a1e21f-2249-7000-aad3-893cc7fff097"
CHAIN: dict[str, tuple[str, ...]] = {"order": (), "pay": ("order",), "ship": ("pay",), "mail": ("ship",)}
WAITING = {"order": "queued", "pay": "waiting", "ship": "waiting", "mail": "waiting"}


def fail(service: Service, message: str = "card declined") -> bytes:
    (job,) = take(service)
    error = Blob(msgspec.json.encode({"type": "ValueError", "message": message}))
    service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).wait()
    return job.id


def finish(service: Service, most: int = 1) -> None:
    jobs = take(service, most=most)
    service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()


def failed_chain(service: Service) -> tuple[str, dict[str, str]]:
    """A chain whose first step has failed. Returns its id and the ids of its jobs by step."""
    flow_id, jobs = put_flow(service, CHAIN)
    fail(service)
    return format_id(flow_id), {step: format_id(job_id) for step, job_id in jobs.items()}


def finish_chain(service: Service, flow_id: bytes) -> None:
    for _ in CHAIN:
        finish(service)
    assert read_flow(service, flow_id).summary.state == "finished"


# Lists


def test_ls(service: Service) -> None:
    flow, _ = failed_chain(service)
    put_flow(service, {"only": ()}, flow="nightly")
    rows = run_ok(service, "flows", "ls").rows
    assert sorted(row[1] for row in rows) == ["nightly", "shop"]
    ((key, name, state, *counts, created, _took, queues),) = run_ok(service, "flows", "ls", "--state", "failed").rows
    assert (key, name, state, counts, queues) == (flow, "shop", "failed", ["4", "0", "1", "0", "3"], "q")
    assert created.endswith("Z")
    assert [row[1] for row in run_ok(service, "flows", "ls", "--name", "n*").rows] == ["nightly"]
    assert run_ok(service, "flows", "ls", "--state", "cancelled").rows == []
    (line,) = run_ok(service, "flows", "ls", "-s", "failed", "--json").lines
    assert (line["id"], line["state"], line["consequences"]) == (flow, "failed", 3)


def test_ls_notes_omitted_rows(service: Service) -> None:
    for _ in range(3):
        put_flow(service, {"only": ()})
    done = run_ok(service, "flows", "ls", "--limit", "2")
    assert len(done.rows) == 2
    assert "--limit 0" in done.err
    everything = run_ok(service, "flows", "ls", "--limit", "0")
    assert (len(everything.rows), everything.err) == (3, "")
    assert run_ok(service, "flows", "ls", "--limit", "3").err == ""


# Names


def test_a_flow_by_a_part_of_an_id(service: Service) -> None:
    flow, jobs = failed_chain(service)
    put_flow(service, {"only": ()})
    for name in (flow[-6:], f"…{flow[-6:]}", flow[:33], jobs["pay"][-6:]):
        assert run_ok(service, "flows", "show", name, "--json").document["summary"]["id"] == flow
    assert run_ok(service, "flows", "resume", flow[-8:]).rows == [[flow, "1 step retried"]]


def test_a_part_of_the_ids_of_one_flow_means_this_flow(service: Service) -> None:
    flow, _ = failed_chain(service)
    assert run_ok(service, "flows", "show", flow[:18], "--json").document["summary"]["id"] == flow


def test_a_part_of_several_flows_lists_them_and_changes_nothing(service: Service) -> None:
    keys = [format_id(put_flow(service, {"only": ()})[0]) for _ in range(2)]
    done = run(service, "flows", "cancel", keys[0][:6])
    assert (done.code, sorted(row[0] for row in done.rows)) == (1, sorted(keys))
    assert "may mean one of these flows" in done.err
    assert states_of(service, parse_id(keys[0])) == {"only": "queued"}


def test_an_unknown_part_of_a_flow(service: Service) -> None:
    failed_chain(service)
    done = run(service, "flows", "show", "…000000000000")
    assert done.code == 1
    assert "no job has this id" in done.err


# Details


def test_show_a_failed_flow(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    finish(service)
    fail(service)
    flow, pay = format_id(flow_id), format_id(jobs["pay"])
    page = run_ok(service, "flows", "show", flow).out
    lines = page.splitlines()
    assert lines[0] == f"{flow}  shop  failed"
    assert lines[1] == "Of 4 steps, 1 failed; 2 later steps did not run because of that."
    assert "steps    4: 1 finished, 1 failed, 2 not run" in page
    assert f"  pay failed: ValueError: card declined\n    job {pay}\n" in page
    assert "2 later steps did not run because of it: ship, mail" in page
    rows = [line.split("\t") for line in lines if "\t" in line]
    assert [row[1:5] for row in rows] == [
        ["✓ order", "finished", "", ""],
        ["✗ pay", "failed", "", "order"],
        ["· ship", "not run", "pay failed", "pay"],
        ["· mail", "not run", "pay failed", "ship"],
    ]
    assert f"  windlass flows resume {flow}  " in page
    assert f"  windlass jobs show {pay} " in page


def test_show_takes_the_name_of_any_job_of_the_flow(service: Service) -> None:
    flow, jobs = failed_chain(service)
    pages = {run_ok(service, "flows", "show", name).out.splitlines()[0] for name in (flow, *jobs.values())}
    assert pages == {f"{flow}  shop  failed"}
    (plain,) = put(service, new(unique="alone"))
    refused = run(service, "flows", "show", "alone")
    assert (refused.code, refused.out) == (1, "")
    assert f"this job belongs to no flow. `windlass jobs show {format_id(plain.id)}`" in refused.err


@pytest.mark.parametrize("command", ["show", "resume", "cancel", "rerun"])
def test_unknown_flows(service: Service, command: str) -> None:
    done = run(service, "flows", command, UNKNOWN)
    assert (done.code, done.out) == (1, "")
    assert "There is no flow with this id" in done.err
    assert run(service, "flows", command, "nope").code == 1
    assert run(service, "flows", command).code == 2


def test_show_with_json(service: Service) -> None:
    flow, jobs = failed_chain(service)
    document = run_ok(service, "flows", "show", flow, "--json").document
    assert document["summary"]["state"] == "failed"
    assert [step["cause"] for step in document["steps"]] == [None, *[jobs["order"]] * 3]
    assert document["errors"] == {jobs["order"]: "ValueError: card declined"}


def test_a_running_flow_can_be_cancelled_and_a_finished_flow_can_run_again(service: Service) -> None:
    flow_id, _ = put_flow(service, {"only": ()}, result_ttl_ms=60_000)
    flow = format_id(flow_id)
    running = run_ok(service, "flows", "show", flow).out
    assert "Its only step has not ended." in running
    assert f"windlass flows cancel {flow}" in running
    assert "flows resume" not in running
    finish(service)
    page = run_ok(service, "flows", "show", flow).out
    assert "Its only step finished." in page
    assert f"windlass flows rerun {flow}" in page
    assert "flows cancel" not in page


def test_a_large_flow_is_folded(service: Service) -> None:
    graph: dict[str, tuple[str, ...]] = {"first": ()}
    graph |= {f"page {number}": ("first",) for number in range(480)}
    flow_id, _ = put_named(service, graph)
    finish(service)
    for _ in range(2):  # members are released in steps
        finish(service, most=200)
    take(service, most=12)
    fail(service)
    page = run_ok(service, "flows", "show", format_id(flow_id))
    rows = [line.split("\t") for line in page.out.splitlines() if "\t" in line]
    folded = sorted(row[1:3] for row in rows if not row[0])  # the order depends on the ids of the jobs
    assert folded == [["▶ 2 more × fetch", "running"], ["○ 67 × fetch", "queued"], ["✓ 400 × fetch", "finished"]]
    assert len(rows) < 20
    assert "--all" in page.err
    everything = run_ok(service, "flows", "show", format_id(flow_id), "--all")
    assert len([line for line in everything.out.splitlines() if "\t" in line]) == 481
    assert everything.err == ""


def put_named(service: Service, graph: dict[str, tuple[str, ...]]) -> tuple[bytes, dict[str, bytes]]:
    """Enqueue a flow whose steps, apart from the first, are of one task."""
    flow_id, *ids = service.store.new_ids(["q"] * (len(graph) + 1))
    jobs = dict(zip(graph, ids, strict=True))
    new_jobs = [
        new(
            name="fetch" if after else "plan",
            id=jobs[step],
            after=tuple(jobs[other] for other in after),
            flow=FlowRef(flow_id, "pages", step),
        )
        for step, after in graph.items()
    ]
    service.enqueue(new_jobs, whole=True).wait()
    return flow_id, jobs


# Actions


def test_cancel(service: Service) -> None:
    flow_id, _ = put_flow(service, CHAIN)
    flow = format_id(flow_id)
    assert run_ok(service, "flows", "cancel", flow).out == f"{flow}\tcancelled\n"
    assert set(states_of(service, flow_id).values()) == {"cancelled"}
    again = run(service, "flows", "cancel", flow)
    assert (again.code, "All steps of the flow have ended" in again.err) == (1, True)


def test_cancel_and_resume(service: Service) -> None:
    flow_id, _ = put_flow(service, CHAIN)
    flow = format_id(flow_id)
    run_ok(service, "flows", "cancel", flow)
    assert run_ok(service, "flows", "resume", flow).out == f"{flow}\t4 steps retried\n"
    assert states_of(service, flow_id) == WAITING
    finish_chain(service, flow_id)


def test_rerun_prints_the_id_of_the_new_flow(service: Service) -> None:
    flow_id, _ = put_flow(service, CHAIN, result_ttl_ms=60_000)
    finish_chain(service, flow_id)
    copy = run_ok(service, "flows", "rerun", format_id(flow_id)).out.strip()
    assert copy != format_id(flow_id)
    assert run_ok(service, "flows", "show", copy).out.splitlines()[0] == f"{copy}  shop  running"


def test_rerun_needs_all_records(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN, result_ttl_ms=60_000)
    finish_chain(service, flow_id)
    service.delete([jobs["ship"]]).wait()
    refused = run(service, "flows", "rerun", format_id(flow_id))
    assert (refused.code, refused.out) == (1, "")
    assert "Gone: ship." in refused.err
    page = run_ok(service, "flows", "show", format_id(flow_id)).out
    assert "it cannot run again" in page


def test_several_flows_are_resumed_although_one_is_unknown(service: Service) -> None:
    first, _ = failed_chain(service)
    second, _ = failed_chain(service)
    done = run(service, "flows", "resume", first, UNKNOWN, second)
    assert (done.code, done.out) == (1, f"{first}\t1 step retried\n{second}\t1 step retried\n")
    assert UNKNOWN in done.err
    assert run_ok(service, "flows", "resume", first).out == f"{first}\tnothing to resume\n"


# Repair of a chain whose first step has failed


@pytest.mark.parametrize("way", ["flows resume", "jobs retry", "failed retry"])
def test_a_chain_is_repaired(service: Service, way: str) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    fail(service)
    arguments = {
        "flows resume": ("flows", "resume", format_id(flow_id)),
        "jobs retry": ("jobs", "retry", format_id(jobs["order"])),
        "failed retry": ("failed", "retry", "--yes"),
    }[way]
    assert (
        run_ok(service, *arguments).out
        == {
            "flows resume": f"{format_id(flow_id)}\t1 step retried\n",
            "jobs retry": f"{format_id(jobs['order'])}\tqueued\n",
            "failed retry": "Retried 1 job. 3 later steps follow their causes.\n",
        }[way]
    )
    assert states_of(service, flow_id) == WAITING
    finish_chain(service, flow_id)


def test_retry_of_a_later_step_names_the_cause_and_the_flow(service: Service) -> None:
    flow, jobs = failed_chain(service)
    refused = run(service, "jobs", "retry", jobs["mail"])
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        f"windlass: {jobs['mail']}: It failed because job {jobs['order']} (step order) failed. Retry that job, or: "
        f"windlass flows resume {flow}\n"
    )


def test_a_later_step_may_be_named_before_its_cause(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    fail(service)
    done = run_ok(service, "jobs", "retry", *(format_id(jobs[step]) for step in ("mail", "ship", "order")))
    assert [row[1] for row in done.rows] == ["waiting", "waiting", "queued"]
    assert states_of(service, flow_id) == WAITING


def test_retry_of_failed_jobs_leaves_out_later_steps(service: Service) -> None:
    flow, _ = failed_chain(service)
    done = run_ok(service, "failed", "retry", "--name", "do_mail")
    assert done.out == "Retried 0 jobs. 1 later step follows its cause.\n"
    assert run_ok(service, "flows", "ls", "--state", "failed").rows[0][0] == flow


def test_later_steps_are_listed_on_request(service: Service) -> None:
    _, jobs = failed_chain(service)
    done = run_ok(service, "failed", "ls")
    assert [row[0] for row in done.rows] == [jobs["order"]]
    assert "--later" in done.err
    everything = run_ok(service, "failed", "ls", "--later")
    assert {row[0] for row in everything.rows} == set(jobs.values())
    assert everything.err == ""


def test_show_a_later_step(service: Service) -> None:
    flow, jobs = failed_chain(service)
    page = run_ok(service, "jobs", "show", jobs["ship"]).out
    assert (
        f"It failed because job {jobs['order']} (step order) failed. Retry that job, or: windlass flows resume" in page
    )
    assert f"{flow}  shop" in page
    document = run_ok(service, "jobs", "show", jobs["ship"], "--json").document
    assert document["flow"] == {"id": flow, "name": "shop", "step": "ship"}
    assert document["cause"]["id"] == jobs["order"]
    assert "because" not in run_ok(service, "jobs", "show", jobs["order"]).out


def test_the_cause_of_a_job_without_a_flow(service: Service) -> None:
    first, second, third = service.store.new_ids(["q"] * 3)
    put(service, new(id=first), new(id=second, after=(first,)), new(id=third, after=(second,)))
    fail(service)
    refused = run(service, "jobs", "retry", format_id(third))
    assert f"because job {format_id(first)} (n) failed. Retry that job; this job then waits for it again" in refused.err


# Through a server


def test_all_commands_work_through_a_server(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN, result_ttl_ms=60_000)
    fail(service)
    flow, settings = format_id(flow_id), Settings(port=0, bedrock_port=0, roles="api", access_log=False)
    service.store.open_sync()
    with threaded_server(service.store.clone(), settings) as url:

        def over_http(*arguments: str) -> CliResult:
            done = run_with_settings(*arguments, "--url", url)
            assert done.code == 0, done
            return done

        assert over_http("flows", "ls").rows[0][:3] == [flow, "shop", "failed"]
        page = over_http("flows", "show", format_id(jobs["mail"])).out
        assert "order failed: ValueError: card declined" in page
        later = over_http("jobs", "show", format_id(jobs["mail"])).out
        assert f"because job {format_id(jobs['order'])} (step order) failed" in later
        assert over_http("failed", "retry", "--yes").out == "Retried 1 job. 3 later steps follow their causes.\n"
        fail(service)
        refused = run_with_settings("jobs", "retry", format_id(jobs["mail"]), "--url", url)
        assert f"windlass flows resume {flow}" in refused.err
        assert over_http("flows", "resume", flow).out == f"{flow}\t1 step retried\n"
        finish_chain(service, flow_id)
        copy = over_http("flows", "rerun", flow).out.strip()
        assert over_http("flows", "cancel", copy).out == f"{copy}\tcancelled\n"
