"""Pages of flows: the list, one flow, its actions, and links from and to jobs."""

from __future__ import annotations

import re
import time

import httpx
import pytest

from tests.dashboard.page_client import Page, PageClient
from tests.service.flows.flow_builders import put_flow, states_of
from windlass.core.access.tokens import NewToken, Role
from windlass.core.durable import Suspend, Wait
from windlass.core.ids import format_id
from windlass.core.job import Blob, FlowRef, Job, NewJob
from windlass.core.operations import Fail, Finish, Take, WorkerInfo
from windlass.sdk.failures import encode_error
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

SHOP: dict[str, tuple[str, ...]] = {
    "reserve": (),
    "charge": ("reserve",),
    "invoice": ("reserve",),
    "mail": ("charge", "invoice"),
    "ship": ("mail",),
}
HOUR_MS = 3_600_000
LOOSE_S = 2.0  # a page of 2,000 steps must take less than 0.2 s; a busy machine needs longer


def put_shop(service: Service, name: str = "checkout", queue: str = "q") -> tuple[bytes, dict[str, bytes]]:
    return put_flow(service, SHOP, flow=name, queue=queue, result_ttl_ms=HOUR_MS)


def take(service: Service, most: int = 1, queue: str = "q") -> list[Job]:
    return service.take(Take(queues=(queue,), most=most)).wait().jobs


def finish(service: Service, queue: str = "q") -> None:
    (job,) = take(service, queue=queue)
    service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).wait()


def fail_charge(service: Service, queue: str = "q") -> None:
    """Finish `reserve`, fail `charge`, finish `invoice`."""
    finish(service, queue)
    for job in take(service, 2, queue):
        if job.name == "do_charge":
            error = encode_error("BankError", "the bank said <no>")
            service.fail([Fail(id=job.id, token=job.lease_token, error=error, then="final")]).wait()
        else:
            service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).wait()


def boxes(page: Page) -> dict[str, str]:
    """Return the classes of the boxes of the graph, by their keys."""
    found = [attributes for _, attributes in page.elements if attributes.get("class", "").startswith("box box-")]
    return {attributes["data-key"]: attributes["class"] for attributes in found}


class TestOneFlow:
    async def test_shows_its_steps_and_links_to_their_jobs(self, page_client: PageClient, service: Service) -> None:
        flow_id, jobs = put_shop(service)
        fail_charge(service)
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        assert page.status == 200
        drawn = boxes(page)
        assert drawn.keys() == {format_id(job_id) for job_id in jobs.values()}
        assert "box-failed is-cause" in drawn[format_id(jobs["charge"])]
        assert "box-consequence" in drawn[format_id(jobs["ship"])]
        for job_id in jobs.values():
            assert page.all("a", href=f"/jobs/{format_id(job_id)}")
        assert "2 steps could not run because of it" in page.text
        assert "the bank said <no>" in page.text
        assert "because of charge" in page.text
        assert "5 of 5" in page.text

    async def test_says_why_a_queued_step_is_not_taken(self, page_client: PageClient, service: Service) -> None:
        flow_id, jobs = put_shop(service)
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        (reason, *_) = service.explain(jobs["reserve"]).wait().reasons
        assert f"reserve is queued. {reason.sentence}" in page.text.replace(" .", ".")

    async def test_says_what_a_suspended_step_waits_for(self, page_client: PageClient, service: Service) -> None:
        flow_id, jobs = put_shop(service)
        (job,) = take(service)
        wait = Wait(name="approval", kind="signal", signal="approval", for_ms=HOUR_MS)
        service.suspend([Suspend(id=job.id, token=job.lease_token, waits=(wait,))]).wait()
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        assert "box-suspended" in boxes(page)[format_id(jobs["reserve"])]
        assert 'reserve is suspended. It waits for signal "approval"' in page.text.replace(" .", ".")

    async def test_names_tasks_that_no_worker_has(self, page_client: PageClient, service: Service) -> None:
        """The step waits for another step, so that it would fail to start only later."""
        flow_id, _ = put_flow(service, {"first": (), "mial": ("first",), "last": ("mial",)})
        known = WorkerInfo(queues=("q",), names=("do_first", "do_mail", "do_last"))
        service.register(b"w" * 16, known, beat_ms=600_000).wait()
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        assert 'mial cannot run. No worker has a task called "do_mial"; did you mean "do_mail"?' in page.text
        assert page.text.count("No worker has a task") == 1

    async def test_explains_one_step_of_each_task(self, page_client: PageClient, service: Service) -> None:
        steps: dict[str, tuple[str, ...]] = {f"part {at}": () for at in range(9)}
        flow_id, *ids = service.store.new_ids(["q"] * 10)
        service.enqueue(
            [
                NewJob(queue="q", name=f"task {at // 4}", id=job_id, flow=FlowRef(flow_id, "parts", step))
                for at, (step, job_id) in enumerate(zip(steps, ids, strict=True))
            ],
            whole=True,
        ).wait()
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        assert "part 0 and 3 more steps of task 0 are queued." in page.text
        assert "part 4 and 3 more steps of task 1 are queued." in page.text
        assert "part 8 is queued." in page.text

    async def test_names_running_and_deleted_steps(self, page_client: PageClient, service: Service) -> None:
        flow_id, jobs = put_shop(service)
        take(service)
        service.delete([jobs["ship"]]).wait()
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        assert "1 step runs: reserve" in page.text
        assert "1 step was deleted before it ended: ship" in page.text
        assert not page.all("a", href=f"/jobs/{format_id(jobs['ship'])}")

    async def test_a_finished_flow_has_no_blockers_and_cannot_be_cancelled(
        self, page_client: PageClient, service: Service
    ) -> None:
        flow_id, _ = put_shop(service)
        for _ in SHOP:
            finish(service)
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        (blockers,) = page.all("section", id="blockers")
        assert "hidden" in blockers
        assert page.actions & {"/do/resume-flow", "/do/cancel-flow", "/do/rerun-flow"} == {"/do/rerun-flow"}

    async def test_folds_many_steps_and_shows_all_on_request(self, page_client: PageClient, service: Service) -> None:
        steps: dict[str, tuple[str, ...]] = {"first": ()} | {f"part {at}": ("first",) for at in range(300)}
        flow_id, _ = put_flow(service, steps)
        path = f"/flows/{format_id(flow_id)}"
        page = await page_client.get(path)
        assert len(boxes(page)) < 20
        assert "waiting" in page.text
        assert page.all("a", href=f"{path}?steps=all")
        assert len(boxes(await page_client.get(f"{path}?steps=all"))) == 301
        assert (await page_client.get(f"{path}?steps=some")).status == 400

    async def test_two_thousand_steps_are_shown_in_time(self, page_client: PageClient, service: Service) -> None:
        """It takes 30 to 90 ms of processor time. The bound is loose."""
        steps: dict[str, tuple[str, ...]] = {"0": ()}
        steps |= {str(at): (str(at - 1), str(at // 2)) if at > 3 else (str(at - 1),) for at in range(1, 2000)}
        flow_id, _ = put_flow(service, steps)
        await page_client.get(f"/flows/{format_id(flow_id)}")  # compiles templates
        began_s = time.perf_counter()
        answer = await page_client.http.get(f"/flows/{format_id(flow_id)}")
        assert time.perf_counter() - began_s < LOOSE_S
        assert answer.status_code == 200

    async def test_an_unknown_flow(self, page_client: PageClient, service: Service) -> None:
        (other,) = service.store.new_ids(["q"])
        path = f"/flows/{format_id(other)}"
        assert "There is no flow with this id" in (await page_client.get(path)).text
        assert (await page_client.get(path, x_windlass_live="1")).status == 204
        assert (await page_client.get("/flows/nothing")).status == 400


class TestActions:
    async def test_resume(self, page_client: PageClient, service: Service) -> None:
        flow_id, _ = put_shop(service)
        fail_charge(service)
        path = f"/flows/{format_id(flow_id)}"
        fields = (await page_client.get(path)).form("/do/resume-flow")
        answer = await page_client.send("/do/resume-flow", fields)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        assert states_of(service, flow_id) == {
            "reserve": "finished", "charge": "queued", "invoice": "finished", "mail": "waiting", "ship": "waiting",
        }  # fmt: skip
        page = await page_client.get(path)
        assert "Retried 1 step." in page.text
        assert "/do/resume-flow" not in page.actions
        (entry,) = service.audits().wait().entries
        assert (entry.what, entry.target, entry.detail) == ("resume_flow", format_id(flow_id), "checkout")

    async def test_cancel_asks_first(self, page_client: PageClient, service: Service) -> None:
        flow_id, _ = put_shop(service)
        fields = (await page_client.get(f"/flows/{format_id(flow_id)}")).form("/do/cancel-flow")
        asked = await page_client.send("/do/cancel-flow", fields)
        assert "Cancel all steps of this flow" in asked.text
        assert set(states_of(service, flow_id).values()) == {"queued", "waiting"}
        await page_client.send("/do/cancel-flow", Page(asked).form("/do/cancel-flow"))
        assert set(states_of(service, flow_id).values()) == {"cancelled"}
        assert "The flow is cancelled." in (await page_client.get(f"/flows/{format_id(flow_id)}")).text

    async def test_run_again(self, page_client: PageClient, service: Service) -> None:
        flow_id, _ = put_shop(service)
        fail_charge(service)
        fields = (await page_client.get(f"/flows/{format_id(flow_id)}")).form("/do/rerun-flow")
        answer = await page_client.send("/do/rerun-flow", fields)
        newest, oldest = service.flows().wait().flows
        assert answer.headers["location"] == f"/flows/{newest.key}"
        assert (newest.name, newest.state, oldest.id) == ("checkout", "running", flow_id)

    async def test_an_unknown_flow_is_refused(self, page_client: PageClient, service: Service) -> None:
        flow_id, _ = put_shop(service)
        fields = (await page_client.get(f"/flows/{format_id(flow_id)}")).form("/do/cancel-flow")
        (other,) = service.store.new_ids(["q"])
        for action in ("resume-flow", "cancel-flow", "rerun-flow"):
            answer = await page_client.send(f"/do/{action}", fields | {"id": format_id(other), "confirmed": "1"})
            assert answer.status_code == 404
        assert set(states_of(service, flow_id).values()) == {"queued", "waiting"}


class TestRights:
    @pytest.fixture
    def mailer(self, service: Service) -> str:
        new = NewToken(name="mailer", roles=frozenset({Role.READ, Role.PRODUCE}), queues=("mail",))
        return service.create_token(new).wait().text

    @pytest.fixture
    def reader(self, service: Service) -> str:
        return service.create_token(NewToken(name="reader", roles=frozenset({Role.READ}))).wait().text

    async def test_a_token_needs_all_queues_of_a_flow(
        self, mailer: str, page_client: PageClient, service: Service
    ) -> None:
        await page_client.log_in(mailer)
        mine, _ = put_shop(service, "mine", "mail")
        flow_id, *ids = service.store.new_ids(["mail", "mail", "secret"])
        mixed = [
            NewJob(queue=queue, name="do", id=job_id, flow=FlowRef(flow_id, "mixed", queue))
            for queue, job_id in zip(("mail", "secret"), ids, strict=True)
        ]
        service.enqueue(mixed, whole=True).wait()
        listed = await page_client.get("/flows")
        assert "mine" in listed.text
        assert "mixed" not in listed.text
        assert (await page_client.get(f"/flows/{format_id(flow_id)}")).status == 403
        assert (await page_client.get(f"/search?q={format_id(flow_id)}")).status == 200
        fields = (await page_client.get(f"/flows/{format_id(mine)}")).form("/do/cancel-flow")
        for action in ("cancel-flow", "rerun-flow"):
            answer = await page_client.send(f"/do/{action}", fields | {"id": format_id(flow_id), "confirmed": "1"})
            assert answer.status_code == 403
        assert set(states_of(service, flow_id).values()) == {"queued"}

    async def test_a_reader_sees_no_buttons(self, reader: str, page_client: PageClient, service: Service) -> None:
        flow_id, _ = put_shop(service)
        fail_charge(service)
        await page_client.log_in(reader)
        page = await page_client.get(f"/flows/{format_id(flow_id)}")
        assert page.status == 200
        assert not [action for action in page.actions if "/do/" in action]


class TestList:
    async def test_progress_and_failures(self, page_client: PageClient, service: Service) -> None:
        put_shop(service, "first")
        fail_charge(service)
        put_shop(service, "second")
        page = await page_client.get("/flows")
        assert page.text.index("second") < page.text.index("first")
        assert "5 of 5" in page.text
        assert "0 of 5" in page.text
        assert "2 not run" in page.text

    async def test_filters(self, page_client: PageClient, service: Service) -> None:
        put_shop(service, "checkout")
        fail_charge(service)
        put_shop(service, "refund")
        for query, wanted in (
            ("", {"checkout", "refund"}),
            ("?state=failed", {"checkout"}),
            ("?state=running", {"refund"}),
            ("?name=check", {"checkout"}),
            ("?name=%3Drefund", {"refund"}),
            ("?name=nothing", set()),
        ):
            page = await page_client.get(f"/flows{query}")
            rows = [row for row in page.all("tr") if "data-key" in row]
            assert len(rows) == len(wanted)
            assert all(name in page.text for name in wanted)
        assert (await page_client.get("/flows?state=lost")).status == 400

    async def test_pages(self, page_client: PageClient, service: Service) -> None:
        for number in range(60):
            put_flow(service, {"only": ()}, flow=f"flow {number}")
        first = await page_client.get("/flows?state=running")
        (following,) = first.all("a", rel="next")
        second = await page_client.get(following["href"])
        keys = [row["data-key"] for page in (first, second) for row in page.all("tr") if "data-key" in row]
        assert len(keys) == len(set(keys)) == 60
        assert not second.all("a", rel="next")
        assert "First page" in second.text


class TestLinks:
    async def test_a_job_names_its_flow_and_its_cause(self, page_client: PageClient, service: Service) -> None:
        flow_id, jobs = put_shop(service)
        fail_charge(service)
        page = await page_client.get(f"/jobs/{format_id(jobs['ship'])}")
        assert "Step ship of flow checkout" in page.text
        assert page.all("a", href=f"/flows/{format_id(flow_id)}")
        assert re.search("It could not run, because do_charge failed", page.text)
        assert page.all("a", href=f"/jobs/{format_id(jobs['charge'])}")
        assert page.form("/do/resume-flow")["id"] == format_id(flow_id)
        assert "/do/retry-jobs" not in page.actions

    async def test_a_job_without_a_flow_names_its_cause(self, page_client: PageClient, service: Service) -> None:
        first, second = service.store.new_ids(["q", "q"])
        service.enqueue(
            [
                NewJob(queue="q", name="do_charge", id=first),
                NewJob(queue="q", name="do_ship", id=second, after=(first,)),
            ]
        ).wait()
        (job,) = take(service)
        service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).wait()
        page = await page_client.get(f"/jobs/{format_id(second)}")
        assert "It could not run, because do_charge failed" in page.text

    async def test_search_finds_a_flow_by_its_id(self, page_client: PageClient, service: Service) -> None:
        flow_id, _ = put_shop(service)
        answer: httpx.Response = await page_client.http.get(f"/search?q={format_id(flow_id)}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/flows/{format_id(flow_id)}")
