"""Rule sets: what only the current Bedrock server allows is refused under `document`, and accepted under `upstream`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.dialects.bedrock.client import connect
from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.core.access.tokens import NewToken, Role
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.commands import crash
from windlass.dialects.bedrock.rules import DOCUMENT, RULES, UPSTREAM
from windlass.dialects.bedrock.verbs import UPSTREAM_VERBS, VERBS
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio]


@pytest.fixture
async def upstream(service: Service) -> AsyncIterator[BedrockCommands]:
    async with service.store:
        bedrock = BedrockCommands(service, rules=UPSTREAM)
        yield bedrock
        await bedrock.router.close()


BEYOND_THE_DOCUMENT: list[tuple[str, dict[str, Any], str]] = [
    *(
        (verb, given | {"jobPriority": priority}, "402 Invalid priority value")
        for priority in (250, 750, 850)
        for verb, given in (
            ("CreateJob", {"name": "n"}),
            ("UpdateJob", {"data": {}}),
            ("RetryJob", {}),
            ("GetJobs", {"name": "*", "numResults": 1}),
        )
    ),
    ("CreateJobs", {"jobs": [{"name": "n", "jobPriority": 850}]}, "402 Invalid priority value"),
    ("CreateJob", {"name": "n", "priority": 250}, "402 Invalid priority value"),
    (
        "CreateJob",
        {"name": "n", "retryAfter": "+1 HOUR", "repeat": "STARTED, +1 DAY"},
        "402 Recurring auto-retrying jobs are not supported",
    ),
    ("CreateJob", {"name": "n", "retryAfter": "+1 HOUR", "unique": True}, "405 Unique jobs can't be retried"),
    ("CrashBedrockJob", {"names": "n"}, "430 Unrecognized command"),
    ("ClearCrashedBedrockJobs", {}, "430 Unrecognized command"),
]


@pytest.mark.parametrize(("verb", "given", "line"), BEYOND_THE_DOCUMENT)
async def test_each_rule_is_refused_by_the_document_and_accepted_upstream(
    service: Service, verb: str, given: dict[str, Any], line: str
) -> None:
    async with service.store:
        for rules, expected in ((DOCUMENT, {line}), (UPSTREAM, {"200 OK", "404 No job found"})):
            bedrock = BedrockCommands(service, rules=rules)
            number = await bedrock.running("running")
            assert (await bedrock(verb, jobID=number, **given)).line in expected
            await bedrock.router.close()


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("priority", ["-1", "7", "851", "2000", "high", "0500"])
async def test_other_priorities_are_refused_by_both(service: Service, rules: Any, priority: str) -> None:
    async with service.store:
        bedrock = BedrockCommands(service, rules=rules)
        assert (await bedrock("CreateJob", name="n", jobPriority=priority)).line == "402 Invalid priority value"


async def test_jobs_are_taken_by_all_six_priorities(upstream: BedrockCommands) -> None:
    priorities = [0, 250, 500, 750, 850, 1000]
    for priority in priorities:
        await upstream.create("n", jobPriority=priority)
    taken = (await upstream.ok("GetJobs", name="n", numResults=9)).body["jobs"]
    assert [row["priority"] for row in taken] == priorities[::-1]
    await upstream.create("n", jobPriority=850)
    assert (await upstream("GetJob", name="n", jobPriority=750)).line == "404 No job found"
    assert (await upstream.get("n", jobPriority=850))["priority"] == 850


async def test_a_recurring_job_with_retry_after(upstream: BedrockCommands) -> None:
    number = await upstream.create("n", retryAfter="+30 SECONDS", repeat="SCHEDULED, +1 HOUR")
    first = await upstream.get("n")
    assert (first["retryAfter"], first["repeat"]) == ("+30 SECONDS", "SCHEDULED, +1 HOUR")
    assert await upstream.state(number) == "RUNQUEUED"
    assert (await upstream("GetJob", name="n")).line == "404 No job found"
    upstream.advance(31)
    again = await upstream.get("n")
    assert (again["jobID"], again["data"]) == (number, {"retryAfterCount": 1})
    await upstream.ok("FinishJob", jobID=number)
    row = await upstream.query(number)
    assert (row["state"], row["data"]) == ("QUEUED", {})
    planned, following = (
        datetime.fromisoformat(text).replace(microsecond=0) for text in (first["nextRun"], row["nextRun"])
    )
    assert following - planned == timedelta(hours=1), "counted from its schedule, not from the end of the lease"
    upstream.advance(3_600)
    assert (await upstream.get("n"))["data"] == {}, "the deliveries are counted for each run"


async def test_a_unique_job_with_retry_after(upstream: BedrockCommands) -> None:
    number = await upstream.create("n", retryAfter="+30 SECONDS", unique=True, data={"a": 1})
    await upstream.get("n")
    assert await upstream.create("n", retryAfter="+30 SECONDS", unique=True, data={"b": 2}) == number
    upstream.advance(31)
    assert (await upstream.get("n"))["data"] == {"a": 1, "b": 2, "retryAfterCount": 1}


async def test_reruns_are_refused_upstream_where_they_would_be_lost(upstream: BedrockCommands) -> None:
    refused = await upstream("CreateJob", name="n", unique=True, rerunIfDataChanged=True)
    assert refused.line == "402 rerunIfDataChanged is not supported"
    jobs = [{"name": "n", "rerunIfDataChanged": True}]
    assert (await upstream("CreateJobs", jobs=jobs)).line == "402 rerunIfDataChanged is not supported"
    await upstream.create("n", rerunIfDataChanged=False)
    await BedrockCommands(upstream.service).create("n", rerunIfDataChanged=True)


# CrashBedrockJob


async def test_jobs_of_a_crashed_name_are_failed_and_not_returned(upstream: BedrockCommands) -> None:
    bad, good, due_later = [
        await upstream.create(name, **given)
        for name, given in (("bad/a", {"jobPriority": 1000}), ("good", {}), ("bad/b", {"firstRun": "2099-01-01"}))
    ]
    await upstream.ok("CrashBedrockJob", names="bad/[a-c], other")
    rows = (await upstream.ok("GetJobs", name="*", numResults=2)).body["jobs"]
    assert [row["jobID"] for row in rows] == [good]
    assert [await upstream.state(number) for number in (bad, due_later)] == ["FAILED", "QUEUED"]
    await upstream.create("other")
    assert (await upstream.ok("GetJob", name="*")).body == {}
    await upstream.create("other")
    assert (await upstream.ok("GetJobs", name="*", numResults=1)).body == {"jobs": []}
    await upstream.create("other")
    assert (await upstream.ok("GetJob", name="*", Connection="wait", timeout=5_000)).body == {}
    await upstream.ok("ClearCrashedBedrockJobs")
    number = await upstream.create("other")
    assert (await upstream.get("other"))["jobID"] == number


async def test_crash_is_for_local_clients(upstream: BedrockCommands) -> None:
    upstream.client = BedrockClient("203.0.113.7", upstream.client.principal)
    for verb in ("CrashBedrockJob", "ClearCrashedBedrockJobs"):
        assert (await upstream(verb, names="n")).line == "401 Unauthorized"
    number = await upstream.create("n")
    assert (await upstream.get("n"))["jobID"] == number


async def test_names_of_a_crash_are_checked(upstream: BedrockCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await upstream("CrashBedrockJob", names="a," + "*" * 50)).line == "402 Malformed names"
    assert (await upstream("CrashBedrockJob", names=" , ")).line == "200 OK"
    monkeypatch.setattr(crash, "PATTERNS_MAX", 2)
    assert (await upstream("CrashBedrockJob", names="a,b,c")).line == "402 Too many names"
    number = await upstream.create("a")
    assert (await upstream.get("a"))["jobID"] == number, "refused names crash nothing"
    await upstream.ok("CrashBedrockJob", names="a,b,a")
    await upstream.ok("CrashBedrockJob", names="b")


async def test_a_crashed_last_child_resumes_its_parent(upstream: BedrockCommands) -> None:
    parent, child = await upstream.parent_and_child()
    await upstream.ok("FinishJob", jobID=parent)
    await upstream.ok("CrashBedrockJob", names="child")
    assert (await upstream.ok("GetJob", name="child")).body == {}
    assert [await upstream.state(number) for number in (child, parent)] == ["FAILED", "QUEUED"]


# A server


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
async def test_the_setting_selects_the_rules_of_a_server(store: Store, service: Service) -> None:
    for name, lines in (
        ("document", {"402 Invalid priority value", "430 Unrecognized command"}),
        ("upstream", {"200 OK"}),
    ):
        settings = Settings(port=0, bedrock_port=0, roles="api", bedrock_rules=name)  # type: ignore[arg-type]
        async with open_server(store, settings) as running, connect(running.bedrock) as client:
            found = {(await client.call("CreateJob", name="n", jobPriority=850)).line}
            found |= {(await client.call(verb.name, names="x")).line for verb in UPSTREAM_VERBS.values()}
            assert found == lines


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
async def test_a_crash_needs_the_role_admin(store: Store, service: Service) -> None:
    tokens = {role: await service.create_token(NewToken(name=role.value, roles=frozenset({role}))) for role in Role}
    settings = Settings(port=0, bedrock_port=0, roles="api", bedrock_rules="upstream")
    async with open_server(store, settings) as running, connect(running.bedrock) as client:
        for verb in UPSTREAM_VERBS.values():
            for role, made in tokens.items():
                reply = await client.call(verb.name, names="x", Authorization=f"Bearer {made.text}")
                assert reply.status == (200 if role is Role.ADMIN else 403)


def test_the_commands_of_the_document_are_the_same(engine: object) -> None:
    assert DOCUMENT.verbs == VERBS
    assert VERBS.keys() < UPSTREAM.verbs.keys()
    assert Settings().bedrock_rules == "document"
