"""Queues of a token: every command, with the queues that it names and the jobs that it finds by number."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.bedrock.client import connect
from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.bedrock.queues.conftest import queue_beside
from windlass.core.access.tokens import NewToken, Principal, Role
from windlass.core.job import Blob, NewJob, Timeline
from windlass.core.operations import Finish, Take
from windlass.dialects.bedrock.verbs import VERBS
from windlass.server import Server
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

MAIL = Principal("mail", frozenset(Role), queues=("mail*",))
JOBS = '[{"name":"n","queue":"%s"}]'
NAMING: dict[str, list[dict[str, Any]]] = {
    "CreateJob": [{"name": "n", "queue": None}],
    "CreateJobs": [{"jobs": JOBS}, {"jobs": '[{"name":"n"}]', "queue": None}],
    "GetJob": [{"name": "*", "queue": None}, {"name": "*", "queues": "mail,%s"}],
    "GetJobs": [
        {"name": "*", "numResults": 1, "queue": None},
        {"name": "*", "numResults": 1, "queues": "mail,%s"},
    ],
    "Query": [{"query": "select 1;", "queue": None}, {"query": "select 1;", "queues": "mail,%s"}],
}
BY_NUMBER = {"QueryJob", "UpdateJob", "FinishJob", "RetryJob", "FailJob", "CancelJob", "DeleteJob", "RequeueJobs"}
WITHOUT_QUEUE = {"Ping", "Status"}


def test_every_command_is_in_a_table(engine: object) -> None:
    assert {verb.name for verb in VERBS.values()} == set(NAMING) | BY_NUMBER | WITHOUT_QUEUE


def _fill(given: dict[str, Any], queue: str) -> dict[str, Any]:
    return {
        name: queue if value is None else value.replace("%s", queue) if isinstance(value, str) else value
        for name, value in given.items()
    }


@pytest.mark.parametrize(("verb", "given"), [(verb, given) for verb, cases in NAMING.items() for given in cases])
async def test_a_named_queue_must_be_a_queue_of_the_token(
    bedrock: BedrockCommands, verb: str, given: dict[str, Any]
) -> None:
    await bedrock.service.enqueue([NewJob(queue=queue, name="n") for queue in ("mail", "mail2", "other", "bedrock")])
    bedrock.client.principal = MAIL
    for queue in ("other", "bedrock"):
        refused = await bedrock(verb, **_fill(given, queue))
        assert refused.line == "403 Forbidden"
        assert "mail*" in dict(refused.reply.headers)["error"]
    assert (await bedrock(verb, **_fill(given, "mail2"))).line == "200 OK"


@pytest.mark.parametrize("verb", NAMING)
async def test_a_token_for_other_queues_must_name_a_queue(bedrock: BedrockCommands, verb: str) -> None:
    bedrock.client.principal = MAIL
    given = {name: value for name, value in NAMING[verb][0].items() if name not in ("queue", "queues")}
    if verb == "CreateJobs":
        given = {"jobs": [{"name": "n", "queue": "mail"}, {"name": "n"}]}
    assert (await bedrock(verb, **given)).line == "403 Forbidden"
    bedrock.client.principal = Principal("all", frozenset(Role))
    assert (await bedrock("GetJob", name="*", queues="mail,bedrock")).line == "404 No job found"


@pytest.mark.parametrize("verb", sorted(BY_NUMBER))
async def test_a_job_of_another_queue_does_not_exist(bedrock: BedrockCommands, verb: str) -> None:
    number = await bedrock.running("n", data={"x": "S3CRET"})
    (before,) = await bedrock.service.job([bedrock.service.id_of_number(number)])
    bedrock.client.principal = MAIL
    result = await bedrock(verb, jobID=number, jobIDs=number, data={"y": 1})
    assert result.line == ("200 OK" if verb == "RequeueJobs" else "404 No job with this jobID")
    assert "S3CRET" not in result.text
    (after,) = await bedrock.service.job([bedrock.service.id_of_number(number)])
    assert isinstance(after, Timeline)
    assert isinstance(before, Timeline)
    assert after.job == before.job


async def test_a_token_for_some_queues_works_there_by_number(anywhere: BedrockCommands) -> None:
    anywhere.client.principal = MAIL
    number = await anywhere.create("n", queue="mail")
    assert (await anywhere.get("n", queue="mail"))["jobID"] == number
    await anywhere.ok("UpdateJob", jobID=number, data={"a": 1})
    assert (await anywhere.query(number))["data"] == {"a": 1}
    await anywhere.ok("FinishJob", jobID=number)
    assert await anywhere.state(number) == "gone"


async def test_a_parent_must_be_of_a_queue_of_the_token(bedrock: BedrockCommands) -> None:
    parent = await bedrock.running("parent")
    bedrock.client.principal = MAIL
    for verb, given in (
        ("CreateJob", {"name": "child", "parentJobID": parent, "queue": "mail"}),
        ("CreateJobs", {"jobs": [{"name": "child", "parentJobID": parent, "queue": "mail"}]}),
    ):
        assert (await bedrock(verb, **given)).line == "404 parentJobID does not exist"
    assert not (await bedrock.service.list_members(bedrock.service.id_of_number(parent))).members


async def test_a_unique_name_in_another_queue_is_not_found(bedrock: BedrockCommands) -> None:
    other = await bedrock.create("n", unique=True, data={"x": "S3CRET"})
    bedrock.client.principal = MAIL
    assert await bedrock.create("n", unique=True, queue="mail") != other


async def test_parents_and_children_outside_the_token_are_left_out(anywhere: BedrockCommands) -> None:
    near = queue_beside(anywhere.service.store)
    parent = await anywhere.running("parent", data={"x": "S3CRET"})
    ids = [anywhere.service.id_of_number(parent)]
    await anywhere.service.enqueue(
        [NewJob(queue=queue, name="c", payload=Blob(b'{"x":"%s"}' % queue.encode()), parent=ids[0], held=True)
         for queue in (near, "bedrock")]
    )  # fmt: skip
    await anywhere.ok("FinishJob", jobID=parent)
    anywhere.client.principal = Principal("near", frozenset(Role), queues=(near,))
    child = (await anywhere.ok("GetJob", name="*", queue=near)).text
    assert "S3CRET" not in child
    assert "parentJobID" not in child
    await anywhere.ok("FinishJob", jobID=(await _number(anywhere, near)))
    for job in (await anywhere.service.take(Take(queues=("bedrock",)))).jobs:
        await anywhere.service.finish([Finish(job.id, job.lease_token)])
    anywhere.client.principal = Principal("bedrock", frozenset(Role), queues=("bedrock",))
    finished = (await anywhere.get("parent"))["finishedChildJobs"]
    assert [row["data"] for row in finished] == [{"x": "bedrock"}]


async def _number(bedrock: BedrockCommands, queue: str) -> int:
    result = await bedrock.ok("Query", query="select jobID from jobs;", queue=queue)
    return int(result.body[0][0])


async def test_tokens_over_a_socket(running: Server, service: Service) -> None:
    """Also on the fast path of CreateJob."""
    made = await service.create_token(NewToken(name="mail", roles=frozenset(Role) - {Role.ADMIN}, queues=("mail",)))
    shown = {"Authorization": f"Bearer {made.text}"}
    async with connect(running.bedrock) as client:
        for _ in range(2):
            refused = await client.call("CreateJob", name="n", **shown)
            assert (refused.line, "mail" in refused.headers["error"]) == ("403 Forbidden", True)
        created = await client.call("CreateJob", name="n", queue="mail", **shown)
        assert created.line == "200 OK"
        assert (await client.call("GetJob", name="n", queue="mail")).json["jobID"] == created.json["jobID"]
        assert (await client.call("GetJob", name="n")).line == "403 Forbidden"
        assert (await client.call("Status")).line == "200 OK"
