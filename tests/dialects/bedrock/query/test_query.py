"""Query: SQL over the jobs, read-only and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.core.operations import Listing
from windlass.dialects.bedrock.query import sqlite_query

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def test_all_jobs(bedrock: BedrockCommands) -> None:
    number = await bedrock.running("foo", data={"value": 1}, repeat="finished, +1 minute")
    await bedrock.ok("UpdateJob", jobID=number, data={"value": 2})
    child = await bedrock.create("child", parentJobID=number, retryAfter="+5 MINUTES", jobPriority=0)
    row, kid = await bedrock.query(number), await bedrock.query(child)
    assert (await bedrock.ok("Query", query="select * from jobs;")).body == [
        [row["created"], 1, "RUNNING", "foo", row["nextRun"], row["lastRun"], "finished, +1 minute", {"value": 2}, 500,
         0, ""],
        [kid["created"], 2, "PAUSED", "child", kid["nextRun"], "", "", {}, 0, 1, "+5 MINUTES"],
    ]  # fmt: skip


async def test_with_headers(bedrock: BedrockCommands) -> None:
    await bedrock.create("a", data={"x": 1})
    result = await bedrock.ok("Query", query="SELECT name, data, lastRun FROM jobs;", Format="JSON")
    assert result.text == '{"headers":["name","data","lastRun"],"rows":[["a",{"x":1},""]]}'


async def test_sql_features(bedrock: BedrockCommands) -> None:
    await bedrock.ok("CreateJobs", jobs=[{"name": f"n{at % 3}", "data": {"at": at}} for at in range(9)])
    result = await bedrock.ok(
        "Query",
        query="SELECT name, COUNT(*), SUM(JSON_EXTRACT(data, '$.at')) FROM jobs WHERE name GLOB 'n[12]' AND "
        "state IN ('QUEUED') GROUP BY name ORDER BY 3 DESC;",
    )
    assert result.body == [["n2", 3, 15], ["n1", 3, 12]]
    assert (await bedrock.ok("Query", query="WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x+1 FROM c LIMIT 3) "
                            "SELECT x FROM c;")).body == [[1], [2], [3]]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "402 Missing query"),
        ("select 1", "502 Query Missing Semicolon"),
        ("select nothing from jobs;", "402 Bad query"),
        ("select from;", "402 Bad query"),
        (";", "402 Bad query"),
        ("select 1; select 2;", "402 Bad query"),
        ("delete from jobs;", "502 Query aborted"),
        ("update jobs set state = 'QUEUED' where jobID = 1;", "502 Query aborted"),
        ("insert into jobs values (1);", "502 Query aborted"),
        ("drop table jobs;", "502 Query aborted"),
        ("pragma hard_heap_limit;", "502 Query aborted"),
        ("attach '/etc/passwd' as x;", "502 Query aborted"),
        ("with x as (select 1) delete from jobs;", "402 Bad query"),
        ("select load_extension('x');", "402 Bad query"),
        ("select * from pragma_database_list;", "402 Bad query"),
    ],
)
async def test_refused_queries(bedrock: BedrockCommands, text: str, line: str) -> None:
    number = await bedrock.create()
    result = await bedrock("Query", query=text)
    assert result.line == line
    if line == "402 Bad query":
        assert dict(result.reply.headers)["error"]
    assert await bedrock.state(number) == "QUEUED"


async def test_exceeding_a_limit_is_an_error(bedrock: BedrockCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    await bedrock.ok("CreateJobs", jobs=[{"name": "x", "data": {"text": "y" * 2_000}}] * 30)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT COUNT(*) FROM c;"
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 0.2)
    assert (await bedrock("Query", query=endless)).line == "502 Query aborted"
    for bound, at in (("ROWS_MAX", 29), ("ANSWER_BYTES_MAX", 40_000), ("COPY_BYTES_MAX", 40_000)):
        with monkeypatch.context() as bounded:
            bounded.setattr(sqlite_query, "SECONDS_MAX", 60)
            bounded.setattr(sqlite_query, bound, at)
            assert (await bedrock("Query", query="select * from jobs;")).line == "502 Query aborted", bound
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 200) SELECT jobs.* FROM jobs, c;"
    monkeypatch.setattr(sqlite_query, "ROWS_MAX", 3_000)
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 60)
    assert (await bedrock("Query", query=many)).line == "502 Query aborted"
    assert len((await bedrock.ok("Query", query="select * from jobs;")).body) == 30


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("jobID = 2", [2]),
        ("jobID in (1, 3, 99)", [1, 3]),
        ("state = 'PAUSED'", [2]),
        ("state in ('RUNNING', 'RUNQUEUED')", [1]),
        ("name glob 'o*'", [3]),
        ("name = 'other' and state = 'QUEUED'", [3]),
        ("name = 'other' and state = 'RUNNING'", []),
        ("state = 'queued'", []),
    ],
)
async def test_queries_with_pushed_filters(bedrock: BedrockCommands, condition: str, expected: list[int]) -> None:
    await bedrock.parent_and_child()
    await bedrock.create("other")
    result = await bedrock.ok("Query", query=f"select jobID from jobs where {condition} order by 1;")  # noqa: S608
    assert result.body == [[number] for number in expected]


async def test_a_pushed_filter_limits_reads_from_the_engine(
    bedrock: BedrockCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bedrock.create("a")
    asked: list[Any] = []
    listing = bedrock.service.jobs
    monkeypatch.setattr(bedrock.service, "jobs", lambda one: asked.append(one) or listing(one))
    await bedrock.ok("Query", query="select * from jobs where jobID = 1;")
    assert asked == []
    await bedrock.ok("Query", query="select * from jobs where state = 'FAILED' and name = 'a';")
    assert asked == [Listing(queue="bedrock", state="failed", name="a", most=500)]


async def test_one_line(bedrock: BedrockCommands) -> None:
    await bedrock.create("a")
    assert (await bedrock.ok("Query: select name from jobs;")).text == '[["a"]]'
