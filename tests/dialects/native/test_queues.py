"""Native routes of queues answer what the service answers. Refused requests change nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.dialects.http_requests import NativeApi, segment
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Finish, Take, WorkerInfo
from windlass.core.queue import FOREVER_MS, Configuration
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

HOSTILE = ["a/b", "..", ".", "a b", "ключ 鍵", "%2F", "?x=1#y", "a:b{c}", "\u200bevil", "x" * 255]


def enqueue(service: Service, queue: str, count: int = 1, **more: Any) -> list[bytes]:
    jobs = [NewJob(queue=queue, name="n", **more) for _ in range(count)]
    return [item.id for item in service.enqueue(jobs).wait()]  # type: ignore[union-attr]


def as_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


# Reads


async def test_queues_are_listed_with_what_they_hold(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail", 2)
    enqueue(service, "later", delay_ms=60_000)
    answer = await native_api.get("/queues")
    assert answer["after"] == ""
    expected = as_json(service.stats(["later", "mail"]).wait())
    for item, wanted in zip(answer["queues"], expected, strict=True):
        item.pop("oldest_age_ms"), wanted.pop("oldest_age_ms")
        assert item == wanted
    assert [item["queued"] for item in answer["queues"]] == [0, 2]


async def test_a_queue_reports_names_that_no_worker_knows(native_api: NativeApi, service: Service) -> None:
    await service.enqueue([NewJob(queue="mail", name="send_mial")])
    worker = "/workers/01890a5d-ac96-7000-8000-b5c1d0b7a3f2"
    await native_api.ok("PUT", worker, {"queues": ["mail"], "names": ["send_mail"]})
    assert (await native_api.get("/workers"))["workers"][0]["names"] == ["send_mail"]
    assert (await native_api.get("/queues/mail"))["unknown_names"] == [
        {
            "name": "send_mial",
            "suggestion": "send_mail",
            "sentence": 'No worker has a task called "send_mial"; did you mean "send_mail"?',
        }
    ]
    for names in (["n"] * 1_001, ["x" * 2_000], [""], [7], "n"):
        assert (await native_api("PUT", worker, {"queues": ["mail"], "names": names})).status == 400
    assert (await native_api.get("/workers"))["workers"][0]["names"] == ["send_mail"]


async def test_many_queues_come_in_pages(native_api: NativeApi, service: Service) -> None:
    names = sorted(f"q{number}" for number in range(7))
    for name in names:
        enqueue(service, name)
    seen, after, pages = [], "", 0
    while True:
        page = await native_api.get(f"/queues?most=3&after={segment(after)}")
        seen += [item["queue"] for item in page["queues"]]
        after, pages = page["after"], pages + 1
        if not after:
            break
    assert (seen, pages) == (names, 3)


async def test_a_last_page_that_is_just_full_is_the_last(native_api: NativeApi, service: Service) -> None:
    for name in ("a", "b"):
        enqueue(service, name)
    assert (await native_api.get("/queues?most=2"))["after"] == ""


async def test_no_queues_is_an_empty_page(native_api: NativeApi) -> None:
    assert await native_api.get("/queues") == {"queues": [], "after": ""}


BAD_PAGES = ["most=0", "most=501", "most=x", "most=1&most=2", "afer=x", f"after={'x' * 256}"]


async def test_a_page_that_cannot_be_is_refused(native_api: NativeApi) -> None:
    for query in BAD_PAGES:
        reply = await native_api("GET", f"/queues?{query}")
        assert (reply.status, reply.code) == (400, "bad_input"), query


async def test_a_queue_is_shown_with_all_that_is_known_of_it(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail", 3)
    service.configure("mail", {"fair_share": True, "lease_ms": 5_000}).wait()
    service.set_weights("mail", {"gold": 3}).wait()
    service.pause("mail", lane="gold", reason="down").wait()
    answer = await native_api.get("/queues/mail")
    assert answer["stats"]["queued"] == 3
    assert answer["configuration"] == as_json(service.configuration("mail").wait())
    assert answer["pauses"] == as_json(service.pauses("mail").wait())
    assert answer["weights"] == {"gold": 3}


async def test_a_queue_that_nobody_has_used_is_empty(native_api: NativeApi, service: Service) -> None:
    answer = await native_api.get("/queues/nobody")
    assert answer["stats"]["queued"] == 0
    assert answer["configuration"] == as_json(Configuration())
    assert service.queues().wait() == []


@pytest.mark.parametrize("name", HOSTILE)
async def test_names_may_hold_any_character(native_api: NativeApi, service: Service, name: str) -> None:
    enqueue(service, name)
    assert (await native_api.get(f"/queues/{segment(name)}"))["stats"]["queue"] == name
    assert await native_api.ok("POST", f"/queues/{segment(name)}/pause", {"reason": name}) == {"was_paused": False}
    assert [item["reason"] for item in (await native_api.get(f"/queues/{segment(name)}/pauses"))["pauses"]] == [name]
    assert service.queues().wait() == [name]


BAD_NAMES = [
    (segment("x" * 256), 413, "too_large"),
    (segment("é" * 128), 413, "too_large"),
    ("a%00b", 400, "bad_input"),
    ("a%0Ab", 400, "bad_input"),
    ("%ff", 400, "bad_input"),
    ("", 404, "not_found"),
    ("a/b", 404, "not_found"),
    ("%2e%2e/queues", 404, "not_found"),
]


async def test_names_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    for path, status, code in BAD_NAMES:
        reply = await native_api("GET", f"/queues/{path}")
        assert (reply.status, reply.code) == (status, code), path
        for verb in ("pause", "purge"):
            assert ((await native_api("POST", f"/queues/{path}/{verb}", {})).status) == status
        assert service.queues().wait() == [], path


# Configuration


async def test_properties_are_changed_while_jobs_flow(native_api: NativeApi, service: Service) -> None:
    assert await native_api.get("/queues/mail/configuration") == as_json(Configuration())
    changes = {"lease_ms": FOREVER_MS, "name_lanes": True, "max_length": 10, "index": ["order_id", "a.b"]}
    answer = await native_api.ok("PATCH", "/queues/mail/configuration", changes)
    assert answer == as_json(service.configuration("mail").wait())
    assert answer | changes == answer


async def test_null_is_the_default_again_and_the_rest_stays(native_api: NativeApi, service: Service) -> None:
    service.configure("mail", {"lease_ms": 5_000, "aging_ms": 7}).wait()
    assert (await native_api.ok("PATCH", "/queues/mail/configuration", {"lease_ms": None}))["lease_ms"] == 30_000
    assert service.configuration("mail").wait() == Configuration(aging_ms=7)


BAD_PROPERTIES = [
    {"lease_ms": 0},
    {"lease_ms": -1},
    {"lease_ms": 2**43 + 1},
    {"lease_ms": FOREVER_MS + 1},
    {"lease_ms": "1"},
    {"lease_ms": 1.5},
    {"lease_ms": True},
    {"aging_ms": 2**20 + 1},
    {"name_lanes": 1},
    {"fair_share": "yes"},
    {"max_length": 5, "colour": "red"},
    {"max_length": [1]},
    {"index": "order_id"},
    {"index": ["a..b"]},
    [],
    "x",
]


async def test_properties_that_cannot_be_are_refused_whole(native_api: NativeApi, service: Service) -> None:
    for changes in BAD_PROPERTIES:
        reply = await native_api("PATCH", "/queues/mail/configuration", changes)
        assert (reply.status, reply.code) == (400, "bad_input"), changes
        assert service.configuration("mail").wait() == Configuration(), changes


async def test_weights_are_as_they_were_put(native_api: NativeApi, service: Service) -> None:
    service.set_weights("mail", {"old": 9, "gold": 2}).wait()
    assert await native_api.ok("PUT", "/queues/mail/weights", {"weights": {"gold": 5, "": 3}}) == {
        "weights": {"gold": 5, "": 3}
    }
    assert service.set_weights("mail", {}).wait() == {"gold": 5, "": 3}


BAD_WEIGHTS = [
    {"weights": {"a": 0}},
    {"weights": {"a": 101}},
    {"weights": {"a": "1"}},
    {"weights": []},
    {},
    {"a": 1},
]


async def test_weights_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    service.set_weights("mail", {"old": 9}).wait()
    for body in BAD_WEIGHTS:
        reply = await native_api("PUT", "/queues/mail/weights", body)
        assert (reply.status, reply.code) == (400, "bad_input"), body
        assert service.set_weights("mail", {}).wait() == {"old": 9}, body


async def test_a_lane_that_cannot_be_is_weighed_by_nobody(native_api: NativeApi, service: Service) -> None:
    service.set_weights("mail", {"old": 9}).wait()
    assert (await native_api("PUT", "/queues/mail/weights", {"weights": {"a\x01": 2}})).status == 400
    assert (await native_api("PUT", "/queues/mail/weights", {"weights": {"é" * 200: 2}})).code == "too_large"
    assert (
        await native_api("PUT", "/queues/mail/weights", {"weights": {str(at): 2 for at in range(1001)}})
    ).status == 400
    assert service.set_weights("mail", {}).wait() == {"old": 9}


# Pauses


async def test_a_queue_is_paused_and_resumed(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail")
    assert await native_api.ok("POST", "/queues/mail/pause") == {"was_paused": False}
    assert await native_api.ok("POST", "/queues/mail/pause", {"reason": "again"}) == {"was_paused": True}
    assert service.take(Take(queues=("mail",))).wait().jobs == []
    assert await native_api.ok("POST", "/queues/mail/resume") == {"was_paused": True}
    assert await native_api.ok("POST", "/queues/mail/resume", {}) == {"was_paused": False}
    assert len(service.take(Take(queues=("mail",))).wait().jobs) == 1


async def test_a_lane_and_a_name_are_paused_by_themselves(native_api: NativeApi, service: Service) -> None:
    service.configure("mail", {"name_lanes": True}).wait()
    await native_api.ok("POST", "/queues/mail/pause", {"lane": "gold", "reason": "no gold"})
    await native_api.ok("POST", "/queues/mail/pause", {"name": "send"})
    answer = (await native_api.get("/queues/mail/pauses"))["pauses"]
    assert answer == as_json(service.pauses("mail").wait())
    assert [(item["lane"], item["name"]) for item in answer] == [("", "send"), ("gold", "")]
    await native_api.ok("POST", "/queues/mail/resume", {"lane": "gold"})
    assert [item.name for item in service.pauses("mail").wait()] == ["send"]


BAD_PAUSES = [
    ({"name": "send"}, 409, "names_need_lanes"),
    ({"name": "send", "lane": "gold"}, 400, "bad_input"),
    ({"lane": "x" * 256}, 400, "bad_input"),
    ({"lane": "é" * 200}, 413, "too_large"),
    ({"reason": "x" * 501}, 400, "bad_input"),
    ({"reason": "a\nb"}, 400, "bad_input"),
    ({"reason": 5}, 400, "bad_input"),
    ({"why": "x"}, 400, "bad_input"),
]


async def test_pauses_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    for body, status, code in BAD_PAUSES:
        reply = await native_api("POST", "/queues/mail/pause", body)
        assert (reply.status, reply.code) == (status, code), body
        assert service.pauses("mail").wait() == [], body


# Lanes


async def test_lanes_come_in_pages_with_what_holds_them_back(native_api: NativeApi, service: Service) -> None:
    for lane in ("a", "b", "c"):
        enqueue(service, "mail", 2, lane=lane)
    service.limit(Limit(name="few", matches=Matcher(queue="mail"), running=1)).wait()
    held = [job.id for job in service.take(Take(queues=("mail",), most=9)).wait().jobs]
    page = await native_api.get("/queues/mail/lanes?most=2")
    assert [item["lane"] for item in page["lanes"]] == ["a", "b"]
    assert all(item["held_by"] == {"limit": "few", "key": None, "pause": ""} for item in page["lanes"])
    rest = await native_api.get(f"/queues/mail/lanes?cursor={segment(page['cursor'])}")
    assert ([item["lane"] for item in rest["lanes"]], rest["cursor"]) == (["c"], "")
    holders = await native_api.get("/limits/few/holders")
    assert (holders["count"], [item["id"] for item in holders["holders"]]) == (1, [format_id(item) for item in held])
    assert (await native_api("GET", "/limits/none/holders")).code == "unknown_limit"
    assert (await native_api("GET", "/limits/few/holders?key=x")).code == "bad_input"
    assert (await native_api("GET", "/queues/mail/lanes?cursor=x")).code == "bad_input"


# History


async def test_history_is_told_minute_by_minute(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail", 3)
    service.take(Take(queues=("mail",), most=2)).wait()
    answer = await native_api.get("/queues/mail/history?hours=2")
    minutes = service.history("mail", hours=2).wait()
    told = ("wait_p50_ms", "wait_p95_ms", "run_p50_ms", "run_p95_ms")
    assert answer == {"minutes": [as_json(item) | {name: getattr(item, name) for name in told} for item in minutes]}
    assert sum(sum(item["waits"]) for item in answer["minutes"]) == 2
    assert sum(item["enqueued"] for item in answer["minutes"]) == 3
    for hours in ("0", "49", "x", ""):
        assert (await native_api("GET", f"/queues/mail/history?hours={hours}")).code == "bad_input"


async def test_the_history_of_all_queues_comes_at_once(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail", 3)
    enqueue(service, "news", 2)
    answer = await native_api.get("/history?step_minutes=60&steps=2")
    assert sum(item["enqueued"] for item in answer["total"]) == 5
    assert {name: sum(item["enqueued"] for item in steps) for name, steps in answer["queues"].items()} == {
        "mail": 3,
        "news": 2,
    }
    assert list((await native_api.get("/history?queue=news&queue=none"))["queues"]) == ["news", "none"]
    for query in ("step_minutes=7", "steps=0", "steps=201", "step_minutes=60&steps=49", "queue="):
        assert (await native_api("GET", f"/history?{query}")).code == "bad_input", query


# Purges


async def purge(native_api: NativeApi, queue: str, cursor: str = "", **body: Any) -> list[int]:
    """Purge a queue. Returns the number of deleted jobs of each step."""
    steps = []
    while True:
        answer = await native_api.ok("POST", f"/queues/{queue}/purge", body | ({"cursor": cursor} if cursor else {}))
        steps.append(answer["deleted"])
        cursor = answer["cursor"]
        assert answer["is_done"] == (not cursor)
        if answer["is_done"]:
            return steps


async def test_a_queue_is_purged_in_bounded_steps(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail", 1_100)
    enqueue(service, "mail", 3, lane="gold")
    enqueue(service, "mail", delay_ms=60_000)
    enqueue(service, "other")
    steps = await purge(native_api, "mail")
    assert sum(steps) == 1_103
    assert max(steps) <= 500
    [mail, elsewhere] = service.stats(["mail", "other"]).wait()
    assert (mail.queued, mail.scheduled, elsewhere.queued) == (0, 1, 1)
    assert await purge(native_api, "mail", state="scheduled") == [1]


@pytest.mark.parametrize("state", ["waiting", "failed", "cancelled", "finished", "history"])
async def test_every_state_but_running_can_be_purged(native_api: NativeApi, service: Service, state: str) -> None:
    _fill(service)
    [before] = service.stats(["mail"]).wait()
    assert getattr(before, state) == 1
    assert sum(await purge(native_api, "mail", state=state)) == 1
    [after] = service.stats(["mail"]).wait()
    changed = {field for field in after.__struct_fields__ if getattr(after, field) != getattr(before, field)}
    assert changed - {"bytes", "oldest_age_ms"} == {state}


def _fill(service: Service) -> None:
    """Add a job in each state."""
    service.configure("mail", {"history_length": 5}).wait()
    made = NewJob(queue="mail", name="n", priority=-1)
    kept = NewJob(queue="mail", name="n", priority=-1, result_ttl_ms=60_000)
    for job, end in ((made, "history"), (kept, "finished"), (made, "failed")):
        service.enqueue([job]).wait()
        [taken] = service.take(Take(queues=("mail",))).wait().jobs
        if end == "failed":
            service.fail([Fail(id=taken.id, token=taken.lease_token)]).wait()
        else:
            service.finish([Finish(taken.id, taken.lease_token)]).wait()
    [cancelled] = enqueue(service, "mail")
    service.cancel([cancelled]).wait()
    [first] = enqueue(service, "mail")
    enqueue(service, "mail", after=(first,))


async def test_what_comes_in_meanwhile_is_not_purged(native_api: NativeApi, service: Service, store: Store) -> None:
    enqueue(service, "mail", 600)
    first = await native_api.ok("POST", "/queues/mail/purge")
    assert first["is_done"] is False
    store.clock_offset_ms += 1_000
    [late] = enqueue(service, "mail")
    assert first["deleted"] + sum(await purge(native_api, "mail", first["cursor"])) == 600
    assert [job.id for job in service.take(Take(queues=("mail",), most=5)).wait().jobs] == [late]


BAD_PURGES = [
    {"state": "running"},
    {"state": "dispatched"},
    {"state": ""},
    {"state": None},
    {"cursor": "x"},
    {"cursor": "1:zzz"},
    {"cursor": "-1:ready:0"},
    {"cursor": "²:ready:0"},
    {"cursor": "9" * 30},
    {"cursor": "1:ready:zzz"},
    {"cursor": "1:laned:\x00"},
    {"cursor": "1:é", "state": "failed"},
    {"cursor": "1:ready:1:2:3"},
    {"all": True},
]


async def test_purges_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail")
    for body in BAD_PURGES:
        reply = await native_api("POST", "/queues/mail/purge", body)
        assert (reply.status, reply.code) == (400, "bad_input"), body
        assert service.stats(["mail"]).wait()[0].queued == 1, body


# Tokens limited to some queues


async def test_a_token_for_some_queues_sees_only_these(native_api: NativeApi, service: Service) -> None:
    for name in ("mail", "mail.eu", "billing"):
        enqueue(service, name)
    token = service.create_token(NewToken(name="t", roles=frozenset({Role.READ}), queues=("mail*",))).wait().text
    assert [item["queue"] for item in (await native_api.get("/queues", token=token))["queues"]] == ["mail", "mail.eu"]
    for path in ("", "/configuration", "/pauses", "/history"):
        assert (await native_api("GET", f"/queues/mail{path}", token=token)).status == 200
        assert (await native_api("GET", f"/queues/billing{path}", token=token)).code == "forbidden"


# Scaling


async def test_a_scaler_reads_a_number(native_api: NativeApi, service: Service, store: Store) -> None:
    enqueue(service, "mail", 25)
    service.take(Take(queues=("mail",), most=4)).wait()
    store.clock_offset_ms += 1_200
    answer = await native_api.get("/queues/mail/scale")
    assert answer.pop("oldest_age_ms") >= 1_200
    assert answer == {"queue": "mail", "workers": 4, "backlog": 21, "running": 4, "is_paused": False}
    assert (await native_api.get("/queues/mail/scale?target=5"))["workers"] == 5
    assert (await native_api.get("/queues/mail/scale?slots=4"))["workers"] == 1
    assert (await native_api.get("/queues/mail/scale?target_age_ms=100"))["workers"] == 25
    assert (await native_api.get("/queues/mail/scale?target=1&max=7"))["workers"] == 7
    enqueue(service, "later", 5, delay_ms=60_000)
    assert (await native_api.get("/queues/later/scale"))["workers"] == 0


async def test_a_queue_without_work_needs_the_minimum(native_api: NativeApi, service: Service) -> None:
    enqueue(service, "mail", 25)
    [taken] = service.take(Take(queues=("mail",), most=1)).wait().jobs
    service.pause("mail").wait()
    for path in ("/queues/mail/scale", "/queues/unknown/scale"):
        assert (await native_api.get(f"{path}?min=3"))["workers"] == 3
    answer = await native_api.get("/queues/mail/scale")
    assert (answer["workers"], answer["backlog"], answer["is_paused"]) == (1, 0, True)  # the running job
    service.finish([Finish(taken.id, taken.lease_token)]).wait()
    assert (await native_api.get("/queues/mail/scale"))["workers"] == 0


BAD_SCALES = [
    "target=-1",
    "target=x",
    "slots=0",
    "min=5&max=4",
    "max=100001",
    "target_age_ms=-1",
    "targt=5",
    "min=1&min=2",
]


async def test_a_goal_that_cannot_be_is_refused(native_api: NativeApi) -> None:
    for query in BAD_SCALES:
        reply = await native_api("GET", f"/queues/mail/scale?{query}")
        assert (reply.status, reply.code) == (400, "bad_input"), query


# Existence and removal


async def test_a_queue_that_does_not_exist_is_empty_and_has_a_suggestion(
    native_api: NativeApi, service: Service
) -> None:
    service.configure("mail", {"lease_ms": 5_000}).wait()
    found = await native_api.get("/queues/mial")
    assert (found["exists"], found["suggestion"], found["stats"]["queued"]) == (False, "mail", 0)
    found = await native_api.get("/queues/mail")
    assert (found["exists"], found["suggestion"]) == (True, "")


async def test_an_empty_queue_is_removed(native_api: NativeApi, service: Service) -> None:
    service.configure("mail", {"lease_ms": 5_000}).wait()
    assert await native_api.ok("DELETE", "/queues/mail") == {"existed": True}
    assert service.queues().wait() == []
    assert await native_api.ok("DELETE", "/queues/mail") == {"existed": False}
    assert [(entry.what, entry.target) for entry in service.audits().wait().entries] == [("remove_queue", "mail")] * 2


async def test_a_queue_in_use_is_not_removed(native_api: NativeApi, service: Service) -> None:
    service.register(b"w" * 16, WorkerInfo(queues=("mail",)), beat_ms=600_000).wait()
    service.configure("mail", {"lease_ms": 5_000}).wait()
    refused = await native_api("DELETE", "/queues/mail")
    assert (refused.status, refused.code) == (409, "queue_in_use")
    assert await native_api.ok("DELETE", "/queues/mail?force=true") == {"existed": True}
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    refused = await native_api("DELETE", "/queues/mail?force=true")
    assert (refused.status, refused.code) == (409, "queue_in_use")
    assert "holds 1 job" in refused.value["detail"]


async def test_unknown_names_among_some(native_api: NativeApi, service: Service) -> None:
    assert await native_api.get("/queues/mail/unknown-names?name=sned") == {"unknown_names": []}
    service.register(b"w" * 16, WorkerInfo(queues=("mail",), names=("send",)), beat_ms=600_000).wait()
    found = await native_api.get("/queues/mail/unknown-names?name=sned&name=send")
    assert [(one["name"], one["suggestion"]) for one in found["unknown_names"]] == [("sned", "send")]
    assert await native_api.get("/queues/mail/unknown-names") == {"unknown_names": []}
