"""Queues through the native API: what is answered is what the service says, and what is refused changes nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from served import Api, segment
from windlass.core.access import NewToken, Role
from windlass.core.job import NewJob
from windlass.core.queue import FOREVER_MS, Configuration
from windlass.core.requests import Fail, Finish, Take
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

HOSTILE = ["a/b", "..", ".", "a b", "ключ 鍵", "%2F", "?x=1#y", "a:b{c}", "\u202eevil", "x" * 255]


def enqueue(service: Service, queue: str, count: int = 1, **more: Any) -> list[bytes]:
    jobs = [NewJob(queue=queue, name="n", **more) for _ in range(count)]
    return [one.id for one in service.enqueue(jobs).wait()]  # type: ignore[union-attr]


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


# Looking


def test_queues_are_listed_with_what_they_hold(api: Api, service: Service) -> None:
    enqueue(service, "mail", 2)
    enqueue(service, "later", delay_ms=60_000)
    answer = api.get("/queues")
    assert answer["after"] == ""
    expected = plain(service.stats(["later", "mail"]).wait())
    for one, wanted in zip(answer["queues"], expected, strict=True):
        one.pop("oldest_age_ms"), wanted.pop("oldest_age_ms")
        assert one == wanted
    assert [one["queued"] for one in answer["queues"]] == [0, 2]


def test_many_queues_come_in_pages(api: Api, service: Service) -> None:
    names = sorted(f"q{number}" for number in range(7))
    for name in names:
        enqueue(service, name)
    seen, after, pages = [], "", 0
    while True:
        page = api.get(f"/queues?most=3&after={segment(after)}")
        seen += [one["queue"] for one in page["queues"]]
        after, pages = page["after"], pages + 1
        if not after:
            break
    assert (seen, pages) == (names, 3)


def test_a_last_page_that_is_just_full_is_the_last(api: Api, service: Service) -> None:
    for name in ("a", "b"):
        enqueue(service, name)
    assert api.get("/queues?most=2")["after"] == ""


def test_no_queues_is_an_empty_page(api: Api) -> None:
    assert api.get("/queues") == {"queues": [], "after": ""}


@pytest.mark.parametrize("query", ["most=0", "most=501", "most=x", "most=1&most=2", "afer=x", f"after={'x' * 256}"])
def test_a_page_that_cannot_be_is_refused(api: Api, query: str) -> None:
    reply = api("GET", f"/queues?{query}")
    assert (reply.status, reply.code) == (400, "bad_input")


def test_a_queue_is_shown_with_all_that_is_known_of_it(api: Api, service: Service) -> None:
    enqueue(service, "mail", 3)
    service.configure("mail", {"fair_share": True, "lease_ms": 5_000}).wait()
    service.weigh("mail", {"gold": 3}).wait()
    service.pause("mail", lane="gold", reason="down").wait()
    answer = api.get("/queues/mail")
    assert answer["stats"]["queued"] == 3
    assert answer["configuration"] == plain(service.configuration("mail").wait())
    assert answer["pauses"] == plain(service.pauses("mail").wait())
    assert answer["weights"] == {"gold": 3}


def test_a_queue_that_nobody_has_used_is_empty(api: Api, service: Service) -> None:
    answer = api.get("/queues/nobody")
    assert answer["stats"]["queued"] == 0
    assert answer["configuration"] == plain(Configuration())
    assert service.queues().wait() == []


@pytest.mark.parametrize("name", HOSTILE)
def test_names_may_hold_any_character(api: Api, service: Service, name: str) -> None:
    enqueue(service, name)
    assert api.get(f"/queues/{segment(name)}")["stats"]["queue"] == name
    assert api.good("POST", f"/queues/{segment(name)}/pause", {"reason": name}) == {"was_paused": False}
    assert [one["reason"] for one in api.get(f"/queues/{segment(name)}/pauses")["pauses"]] == [name]
    assert service.queues().wait() == [name]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (segment("x" * 256), 413, "too_large"),
        (segment("é" * 128), 413, "too_large"),
        ("a%00b", 400, "bad_input"),
        ("a%0Ab", 400, "bad_input"),
        ("%ff", 400, "bad_input"),
        ("", 404, "not_found"),
        ("a/b", 404, "not_found"),
        ("../queues", 404, "not_found"),
    ],
)
def test_names_that_cannot_be_are_refused(api: Api, service: Service, path: str, status: int, code: str) -> None:
    reply = api("GET", f"/queues/{path}")
    assert (reply.status, reply.code) == (status, code)
    for verb in ("pause", "purge"):
        assert (api("POST", f"/queues/{path}/{verb}", {}).status) == status
    assert service.queues().wait() == []


# Properties


def test_properties_are_changed_while_jobs_flow(api: Api, service: Service) -> None:
    assert api.get("/queues/mail/configuration") == plain(Configuration())
    changes = {"lease_ms": FOREVER_MS, "name_lanes": True, "max_length": 10}
    answer = api.good("PATCH", "/queues/mail/configuration", changes)
    assert answer == plain(service.configuration("mail").wait())
    assert answer | changes == answer


def test_null_is_the_default_again_and_the_rest_stays(api: Api, service: Service) -> None:
    service.configure("mail", {"lease_ms": 5_000, "aging_ms": 7}).wait()
    assert api.good("PATCH", "/queues/mail/configuration", {"lease_ms": None})["lease_ms"] == 30_000
    assert service.configuration("mail").wait() == Configuration(aging_ms=7)


@pytest.mark.parametrize(
    "changes",
    [
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
        [],
        "x",
    ],
)
def test_properties_that_cannot_be_are_refused_whole(api: Api, service: Service, changes: Any) -> None:
    reply = api("PATCH", "/queues/mail/configuration", changes)
    assert (reply.status, reply.code) == (400, "bad_input")
    assert service.configuration("mail").wait() == Configuration()


def test_weights_are_as_they_were_put(api: Api, service: Service) -> None:
    service.weigh("mail", {"old": 9, "gold": 2}).wait()
    assert api.good("PUT", "/queues/mail/weights", {"weights": {"gold": 5, "": 3}}) == {"weights": {"gold": 5, "": 3}}
    assert service.weigh("mail", {}).wait() == {"gold": 5, "": 3}


@pytest.mark.parametrize(
    "body", [{"weights": {"a": 0}}, {"weights": {"a": 101}}, {"weights": {"a": "1"}}, {"weights": []}, {}, {"a": 1}]
)
def test_weights_that_cannot_be_are_refused(api: Api, service: Service, body: Any) -> None:
    service.weigh("mail", {"old": 9}).wait()
    reply = api("PUT", "/queues/mail/weights", body)
    assert (reply.status, reply.code) == (400, "bad_input")
    assert service.weigh("mail", {}).wait() == {"old": 9}


def test_a_lane_that_cannot_be_is_weighed_by_nobody(api: Api, service: Service) -> None:
    service.weigh("mail", {"old": 9}).wait()
    assert api("PUT", "/queues/mail/weights", {"weights": {"a\x01": 2}}).status == 400
    assert api("PUT", "/queues/mail/weights", {"weights": {"é" * 200: 2}}).code == "too_large"
    assert api("PUT", "/queues/mail/weights", {"weights": {str(at): 2 for at in range(1001)}}).status == 400
    assert service.weigh("mail", {}).wait() == {"old": 9}


# Pauses


def test_a_queue_is_paused_and_resumed(api: Api, service: Service) -> None:
    enqueue(service, "mail")
    assert api.good("POST", "/queues/mail/pause") == {"was_paused": False}
    assert api.good("POST", "/queues/mail/pause", {"reason": "again"}) == {"was_paused": True}
    assert service.take(Take(queues=("mail",))).wait().jobs == []
    assert api.good("POST", "/queues/mail/resume") == {"was_paused": True}
    assert api.good("POST", "/queues/mail/resume", {}) == {"was_paused": False}
    assert len(service.take(Take(queues=("mail",))).wait().jobs) == 1


def test_a_lane_and_a_name_are_paused_by_themselves(api: Api, service: Service) -> None:
    service.configure("mail", {"name_lanes": True}).wait()
    api.good("POST", "/queues/mail/pause", {"lane": "gold", "reason": "no gold"})
    api.good("POST", "/queues/mail/pause", {"name": "send"})
    answer = api.get("/queues/mail/pauses")["pauses"]
    assert answer == plain(service.pauses("mail").wait())
    assert [(one["lane"], one["name"]) for one in answer] == [("", "send"), ("gold", "")]
    api.good("POST", "/queues/mail/resume", {"lane": "gold"})
    assert [one.name for one in service.pauses("mail").wait()] == ["send"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "send"}, 409, "names_need_lanes"),
        ({"name": "send", "lane": "gold"}, 400, "bad_input"),
        ({"lane": "x" * 256}, 400, "bad_input"),
        ({"lane": "é" * 200}, 413, "too_large"),
        ({"reason": "x" * 501}, 400, "bad_input"),
        ({"reason": "a\nb"}, 400, "bad_input"),
        ({"reason": 5}, 400, "bad_input"),
        ({"why": "x"}, 400, "bad_input"),
    ],
)
def test_pauses_that_cannot_be_are_refused(api: Api, service: Service, body: Any, status: int, code: str) -> None:
    reply = api("POST", "/queues/mail/pause", body)
    assert (reply.status, reply.code) == (status, code)
    assert service.pauses("mail").wait() == []


# History


def test_history_is_told_minute_by_minute(api: Api, service: Service) -> None:
    enqueue(service, "mail", 3)
    service.take(Take(queues=("mail",), most=2)).wait()
    answer = api.get("/queues/mail/history?hours=2")
    assert answer == {"minutes": plain(service.history("mail", hours=2).wait())}
    assert sum(one["enqueued"] for one in answer["minutes"]) == 3
    for hours in ("0", "49", "x", ""):
        assert api("GET", f"/queues/mail/history?hours={hours}").code == "bad_input"


# Purging


def purge(api: Api, queue: str, cursor: str = "", **body: Any) -> list[int]:
    """How many were deleted in each step."""
    steps = []
    while True:
        answer = api.good("POST", f"/queues/{queue}/purge", body | ({"cursor": cursor} if cursor else {}))
        steps.append(answer["deleted"])
        cursor = answer["cursor"]
        assert answer["is_done"] == (not cursor)
        if answer["is_done"]:
            return steps


def test_a_queue_is_purged_in_bounded_steps(api: Api, service: Service) -> None:
    enqueue(service, "mail", 1_100)
    enqueue(service, "mail", 3, lane="gold")
    enqueue(service, "mail", delay_ms=60_000)
    enqueue(service, "other")
    steps = purge(api, "mail")
    assert sum(steps) == 1_103
    assert max(steps) <= 500
    [mail, elsewhere] = service.stats(["mail", "other"]).wait()
    assert (mail.queued, mail.scheduled, elsewhere.queued) == (0, 1, 1)
    assert purge(api, "mail", state="scheduled") == [1]


@pytest.mark.parametrize("state", ["waiting", "failed", "cancelled", "finished", "history"])
def test_every_state_but_running_can_be_purged(api: Api, service: Service, state: str) -> None:
    _fill(service)
    [before] = service.stats(["mail"]).wait()
    assert getattr(before, state) == 1
    assert sum(purge(api, "mail", state=state)) == 1
    [after] = service.stats(["mail"]).wait()
    changed = {field for field in after.__struct_fields__ if getattr(after, field) != getattr(before, field)}
    assert changed - {"bytes", "oldest_age_ms"} == {state}


def _fill(service: Service) -> None:
    """One job in each state."""
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


def test_what_comes_in_meanwhile_is_not_purged(api: Api, service: Service, store: Store) -> None:
    enqueue(service, "mail", 600)
    first = api.good("POST", "/queues/mail/purge")
    assert first["is_done"] is False
    store.clock_offset_ms += 1_000
    [late] = enqueue(service, "mail")
    assert first["deleted"] + sum(purge(api, "mail", first["cursor"])) == 600
    assert [job.id for job in service.take(Take(queues=("mail",), most=5)).wait().jobs] == [late]


@pytest.mark.parametrize(
    "body",
    [{"state": "running"}, {"state": "dispatched"}, {"state": ""}, {"state": None}, {"cursor": "x"}, {"cursor": "1:zzz"},
     {"cursor": "-1:ready:0"}, {"cursor": "²:ready:0"}, {"cursor": "9" * 30}, {"all": True}],
)  # fmt: skip
def test_purges_that_cannot_be_are_refused(api: Api, service: Service, body: Any) -> None:
    enqueue(service, "mail")
    reply = api("POST", "/queues/mail/purge", body)
    assert (reply.status, reply.code) == (400, "bad_input")
    assert service.stats(["mail"]).wait()[0].queued == 1


# Tokens for some queues


def test_a_token_for_some_queues_sees_only_these(api: Api, service: Service) -> None:
    for name in ("mail", "mail.eu", "billing"):
        enqueue(service, name)
    token = service.create_token(NewToken(name="t", roles=frozenset({Role.READ}), queues=("mail*",))).wait().text
    assert [one["queue"] for one in api.get("/queues", token=token)["queues"]] == ["mail", "mail.eu"]
    for path in ("", "/configuration", "/pauses", "/history"):
        assert api("GET", f"/queues/mail{path}", token=token).status == 200
        assert api("GET", f"/queues/billing{path}", token=token).code == "forbidden"
