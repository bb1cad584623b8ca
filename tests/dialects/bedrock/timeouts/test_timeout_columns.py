"""Columns of Query that `select *` leaves out: timeout and expires."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.dialects.bedrock.query.extra_columns import COLUMNS, EXTRA_COLUMNS, QUERY_MAX, columns_for, expand_star

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@pytest.fixture
async def jobs(bedrock: BedrockCommands) -> BedrockCommands:
    """Job 1 runs with a timeout, job 2 waits with one, job 3 has retryAfter, job 4 neither; 3 and 4 run."""
    await bedrock.running("running", jobTimeout="+5 MINUTES")
    await bedrock.create("waiting", jobTimeout="+1 MONTH")
    await bedrock.running("retried", retryAfter="+1 HOUR")
    await bedrock.running("plain")
    return bedrock


async def rows(bedrock: BedrockCommands, query: str) -> Any:
    return (await bedrock.ok("Query", query=query, format="json")).body


@pytest.mark.anyio
async def test_both_columns(jobs: BedrockCommands) -> None:
    expires = (await jobs.query(1))["expires"]
    assert (await rows(jobs, "SELECT jobID, timeout, expires, retryAfter FROM jobs ORDER BY jobID;"))["rows"] == [
        [1, "+5 MINUTES", expires, ""],
        [2, "+1 MONTH", "", ""],
        [3, "", "", "+1 HOUR"],
        [4, "", "", ""],
    ]
    assert (await rows(jobs, "SELECT jobID FROM jobs WHERE expires > '2000' AND state = 'RUNNING';"))["rows"] == [[1]]
    assert (await rows(jobs, "SELECT count(*) FROM jobs WHERE expires IS NULL;"))["rows"] == [[3]]
    assert (await rows(jobs, "SELECT typeof(timeout) FROM jobs WHERE jobID = 4;"))["rows"] == [["text"]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "query",
    [
        "select * from jobs;",
        "SELECT * FROM jobs WHERE timeout != '';",
        "select jobs.* from jobs where Expires is not null",
        "SELECT j.* FROM jobs AS j ORDER BY j.timeout;",
        "SELECT j.* FROM jobs j WHERE 1 ORDER BY j.timeout;",
        "SELECT DISTINCT * FROM jobs -- with a timeout\n;",
        "SELECT * FROM jobs WHERE name != 'timeout';",
        'SELECT * FROM jobs WHERE name != "timeout";',
        "SELECT * FROM (SELECT * FROM jobs);",
        "SELECT a.* FROM jobs a JOIN jobs b ON a.jobID = b.jobID;",
    ],
)
async def test_a_star_has_the_usual_columns(jobs: BedrockCommands, query: str) -> None:
    assert (await rows(jobs, query.removesuffix(";") + ";"))["headers"] == list(COLUMNS)


@pytest.mark.anyio
async def test_a_star_beside_a_column(jobs: BedrockCommands) -> None:
    result = await rows(jobs, "SELECT *, timeout AS t FROM jobs WHERE jobID = 1;")
    assert result["headers"] == [*COLUMNS, "t"]
    assert result["rows"][0][-1] == "+5 MINUTES"
    result = await rows(jobs, "SELECT expires, j.*, 2 * 3 FROM jobs j WHERE timeout LIKE '%MONTH';")
    assert result["headers"] == ["expires", *COLUMNS, "2 * 3"]
    assert (result["rows"][0][0], result["rows"][0][2], result["rows"][0][-1]) == ("", 2, 6)
    assert (await rows(jobs, "SELECT count(*) FROM jobs WHERE timeout = '';"))["rows"] == [[2]]


@pytest.mark.anyio
async def test_queries_that_use_the_names_for_something_else(jobs: BedrockCommands) -> None:
    query = "SELECT substr(name, 1, 1) AS timeout, count(*) FROM jobs GROUP BY timeout ORDER BY 1;"
    assert (await rows(jobs, query))["rows"] == [["p", 1], ["r", 2], ["w", 1]]
    assert (await rows(jobs, "SELECT timeout AS timeout FROM jobs WHERE jobID = 1;"))["rows"] == [["+5 MINUTES"]]
    assert (await rows(jobs, 'SELECT "expires" FROM jobs WHERE jobID = 1;'))["rows"] == [["expires"]]


@pytest.mark.anyio
async def test_the_schema_is_that_of_the_usual_columns(jobs: BedrockCommands) -> None:
    ((schema,),) = (await rows(jobs, ".schema"))["rows"]
    assert not any(name in schema for name in EXTRA_COLUMNS)


def test_the_columns_of_a_query(engine: object) -> None:
    assert columns_for("select * from jobs;") == COLUMNS
    assert columns_for("SELECT [timeout] FROM jobs;") == (*COLUMNS, "timeout")
    assert columns_for("SELECT `Expires`, TIMEOUT FROM jobs;") == (*COLUMNS, "timeout", "expires")
    assert columns_for("SELECT timeout FROM jobs;".ljust(QUERY_MAX + 1)) == COLUMNS
    assert columns_for("SELECT 'timeout', timeouts, my_expires FROM jobs /* timeout */;") == COLUMNS


@pytest.mark.parametrize(
    ("query", "expanded"),
    [
        ("select * from jobs", "select COLUMNS from jobs"),
        ("select 2*3, * from jobs where a = '*';", "select 2*3, COLUMNS from jobs where a = '*';"),
        ("select count(*), jobID * 2 from jobs;", "select count(*), jobID * 2 from jobs;"),
        ("select * from jobs, json_each(data);", "select * from jobs, json_each(data);"),
        ("select * from jobs j, jobs k;", "select * from jobs j, jobs k;"),
        ("select * from jobs join jobs using (x);", "select * from jobs join jobs using (x);"),
        ("select * from jobs union select 1;", "select * from jobs union select 1;"),
        ("with a as (select 1) select * from a;", "with a as (select 1) select * from a;"),
        ("select *", "select *"),
        ("* from jobs", "* from jobs"),
        ("", ""),
    ],
)
def test_writing_a_star_out(query: str, expanded: str, engine: object) -> None:
    assert expand_star(query) == expanded.replace("COLUMNS", ", ".join(COLUMNS))
