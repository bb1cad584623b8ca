"""Query: SQL over the jobs, read-only and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.bedrock.command_router import AtDesk
from windlass.core.operations import Listing
from windlass.dialects.bedrock.query import sqlite_query

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def test_all_jobs(desk: AtDesk) -> None:
    number = await desk.running("foo", data={"value": 1}, repeat="finished, +1 minute")
    await desk.good("UpdateJob", jobID=number, data={"value": 2})
    child = await desk.create("child", parentJobID=number, retryAfter="+5 MINUTES", jobPriority=0)
    row, kid = await desk.query(number), await desk.query(child)
    assert (await desk.good("Query", query="select * from jobs;")).body == [
        [row["created"], 1, "RUNNING", "foo", row["nextRun"], row["lastRun"], "finished, +1 minute", {"value": 2}, 500,
         0, ""],
        [kid["created"], 2, "PAUSED", "child", kid["nextRun"], "", "", {}, 0, 1, "+5 MINUTES"],
    ]  # fmt: skip


async def test_with_headers(desk: AtDesk) -> None:
    await desk.create("a", data={"x": 1})
    said = await desk.good("Query", query="SELECT name, data, lastRun FROM jobs;", Format="JSON")
    assert said.text == '{"headers":["name","data","lastRun"],"rows":[["a",{"x":1},""]]}'


async def test_what_sqlite_can_do(desk: AtDesk) -> None:
    await desk.good("CreateJobs", jobs=[{"name": f"n{at % 3}", "data": {"at": at}} for at in range(9)])
    said = await desk.good(
        "Query",
        query="SELECT name, COUNT(*), SUM(JSON_EXTRACT(data, '$.at')) FROM jobs WHERE name GLOB 'n[12]' AND "
        "state IN ('QUEUED') GROUP BY name ORDER BY 3 DESC;",
    )
    assert said.body == [["n2", 3, 15], ["n1", 3, 12]]
    assert (await desk.good("Query", query="WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x+1 FROM c LIMIT 3) "
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
async def test_what_is_refused(desk: AtDesk, text: str, line: str) -> None:
    number = await desk.create()
    said = await desk("Query", query=text)
    assert said.line == line
    if line == "402 Bad query":
        assert dict(said.reply.headers)["error"]
    assert await desk.state(number) == "QUEUED"


async def test_too_much_is_an_error(desk: AtDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.good("CreateJobs", jobs=[{"name": "x", "data": {"text": "y" * 2_000}}] * 30)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT COUNT(*) FROM c;"
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 0.2)
    assert (await desk("Query", query=endless)).line == "502 Query aborted"
    for bound, at in (("ROWS_MAX", 29), ("ANSWER_BYTES_MAX", 40_000), ("COPY_BYTES_MAX", 40_000)):
        with monkeypatch.context() as bounded:
            bounded.setattr(sqlite_query, "SECONDS_MAX", 60)
            bounded.setattr(sqlite_query, bound, at)
            assert (await desk("Query", query="select * from jobs;")).line == "502 Query aborted", bound
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 200) SELECT jobs.* FROM jobs, c;"
    monkeypatch.setattr(sqlite_query, "ROWS_MAX", 3_000)
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 60)
    assert (await desk("Query", query=many)).line == "502 Query aborted"
    assert len((await desk.good("Query", query="select * from jobs;")).body) == 30


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
async def test_narrowed_queries(desk: AtDesk, condition: str, expected: list[int]) -> None:
    await desk.parent_and_child()
    await desk.create("other")
    said = await desk.good("Query", query=f"select jobID from jobs where {condition} order by 1;")  # noqa: S608
    assert said.body == [[number] for number in expected]


async def test_narrowed_queries_spare_the_engine(desk: AtDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.create("a")
    asked: list[Any] = []
    listing = desk.service.jobs
    monkeypatch.setattr(desk.service, "jobs", lambda one: asked.append(one) or listing(one))
    await desk.good("Query", query="select * from jobs where jobID = 1;")
    assert asked == []
    await desk.good("Query", query="select * from jobs where state = 'FAILED' and name = 'a';")
    assert asked == [Listing(queue="bedrock", state="failed", name="a", most=500)]


async def test_one_line(desk: AtDesk) -> None:
    await desk.create("a")
    assert (await desk.good("Query: select name from jobs;")).text == '[["a"]]'
