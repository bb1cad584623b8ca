"""Query over queues: the column `queue`, headers, conditions that limit the copy, and bounds over all queues."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.bedrock.queues.conftest import queue_elsewhere
from tests.support.engine_process import EngineProcess
from tests.support.namespace import record_operations
from windlass.core.access.tokens import Principal, Role
from windlass.core.job import NewJob
from windlass.core.operations import Listing
from windlass.dialects.bedrock.query import sqlite_query
from windlass.dialects.bedrock.query.extra_columns import columns_for
from windlass.dialects.bedrock.query.filter_pushdown import ALL_JOBS, PushedFilter, push_filter

pytestmark = [pytest.mark.anyio]


@pytest.fixture
async def numbers(bedrock: BedrockCommands) -> dict[str, int]:
    """One job in each of three queues; the last is made by another dialect."""
    made = {queue: await bedrock.create("n", queue=queue) for queue in ("bedrock", "mail")}
    await bedrock.service.enqueue([NewJob(queue="other", name="n")])
    return made


async def _rows(bedrock: BedrockCommands, query: str, **headers: Any) -> list[list[Any]]:
    return list((await bedrock.ok("Query", query=query, **headers)).body)


@pytest.mark.parametrize(
    "query",
    [
        "select * from jobs;",
        "select * from jobs where name != 'queue';",
        'select * from jobs where name <> "queue";',
        "select * from jobs -- of the queue\n;",
        "select * from jobs /* queue */;",
    ],
)
async def test_without_a_mention_a_query_sees_one_queue_and_its_eleven_columns(
    bedrock: BedrockCommands, numbers: dict[str, int], query: str
) -> None:
    (row,) = await _rows(bedrock, query)
    assert row[1] == numbers["bedrock"]
    assert len(row) == len(sqlite_query.COLUMNS) == 11


async def test_an_alias_is_no_mention(bedrock: BedrockCommands, numbers: dict[str, int]) -> None:
    assert await _rows(bedrock, "select jobID as queue from jobs;") == [[numbers["bedrock"]]]


async def test_a_condition_names_queues(anywhere: BedrockCommands) -> None:
    far = queue_elsewhere(anywhere.service.store)
    here, there = await anywhere.create("n"), await anywhere.create("n", queue=far)
    assert await _rows(anywhere, f"select jobID, queue from jobs where queue = '{far}';") == [[there, far]]  # noqa: S608
    both = f"select jobID, queue from jobs where queue in ('{far}', 'bedrock', 'none') order by queue;"  # noqa: S608
    assert await _rows(anywhere, both) == [[here, "bedrock"], [there, far]]
    assert await _rows(anywhere, "select count(*), count(distinct queue) from jobs;") == [[2, 2]]
    assert await _rows(anywhere, f"select queue from jobs where jobID in ({here}, {there}) and queue = '{far}';") == [  # noqa: S608
        [far]
    ]
    assert await _rows(anywhere, f"select jobID from jobs where jobID in ({here}, {there});") == [[here]]  # noqa: S608


async def test_a_parameter_names_a_queue(bedrock: BedrockCommands, numbers: dict[str, int]) -> None:
    given = {"sql-param-#3Aq": "TbWFpbA=="}
    assert await _rows(bedrock, "select queue from jobs where queue = :q;", **given) == [["mail"]]


async def test_select_all_leaves_the_column_out(bedrock: BedrockCommands, numbers: dict[str, int]) -> None:
    result = await bedrock.ok("Query", query="select * from jobs where queue = 'mail';", format="json")
    assert result.body["headers"] == list(sqlite_query.COLUMNS)
    assert [row[1] for row in result.body["rows"]] == [numbers["mail"]]
    result = await bedrock.ok("Query", query="select *, queue from jobs where queue = 'mail';", format="json")
    assert result.body["headers"] == [*sqlite_query.COLUMNS, "queue"]
    assert result.body["rows"][0][-1] == "mail"


async def test_headers_name_queues_and_add_no_column(bedrock: BedrockCommands, numbers: dict[str, int]) -> None:
    (row,) = await _rows(bedrock, "select * from jobs;", queue="mail")
    assert (row[1], len(row)) == (numbers["mail"], 11)
    assert await _rows(bedrock, "select count(*) from jobs;", queues="mail, other,none") == [[2]]
    assert await _rows(bedrock, "select queue from jobs where queue != 'mail';", queues="mail,other") == [["other"]]
    assert await _rows(bedrock, "select queue from jobs where queue = 'bedrock';", queue="mail") == []
    assert await _rows(bedrock, f"select jobID from jobs where jobID = {numbers['bedrock']};", queue="mail") == []  # noqa: S608


async def test_a_job_made_elsewhere_gets_its_number_in_a_query(
    bedrock: BedrockCommands, numbers: dict[str, int]
) -> None:
    ((number, queue),) = await _rows(bedrock, "select jobID, queue from jobs where queue = 'other';")
    assert (await bedrock.query(number))["queue"] == queue == "other"


async def test_a_query_shows_only_queues_of_the_token(bedrock: BedrockCommands, numbers: dict[str, int]) -> None:
    bedrock.client.principal = Principal("mail", frozenset(Role), queues=("mail", "bedrock"))
    assert await _rows(bedrock, "select queue from jobs order by 1;") == [["bedrock"], ["mail"]]
    assert await _rows(bedrock, "select jobID from jobs where queue = 'other';") == []
    assert await _rows(bedrock, "select queue from jobs where queue = 'other' or 1 order by 1;") == [
        ["bedrock"], ["mail"]
    ]  # fmt: skip
    (number,) = await bedrock.service.number(
        [job.id for job in (await bedrock.service.jobs(Listing(queue="other", state="queued"))).jobs]
    )
    assert await _rows(bedrock, f"select queue from jobs where jobID = {number};") == []  # noqa: S608


async def test_only_named_queues_are_copied(
    bedrock: BedrockCommands, numbers: dict[str, int], engine: EngineProcess
) -> None:
    sent: list[list[str]] = []
    await bedrock.service.enqueue([NewJob(queue=f"q{number}", name="n") for number in range(10)])
    for condition in ("queue = 'mail'", "queue != 'mail'"):
        with record_operations(engine, bedrock.service.store) as operations:
            await _rows(bedrock, f"select count(*) from jobs where {condition} and state = 'QUEUED';")  # noqa: S608
        sent.append(operations)
    assert set(sent[0]) == {"jobs"}, "the job has its number in its id"
    assert len(sent[0]) < 5
    assert sent[1].count("jobs") > 10 * len(sent[0])


async def test_the_bounds_hold_over_all_queues(
    bedrock: BedrockCommands, numbers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_query, "ROWS_MAX", 2)
    assert await _rows(bedrock, "select count(*) from jobs where queue in ('mail', 'other');") == [[2]]
    assert (await bedrock("Query", query="select count(queue) from jobs;")).line == "502 Query aborted"


async def test_a_condition_on_a_queue_that_cannot_exist_matches_nothing(bedrock: BedrockCommands) -> None:
    assert await _rows(bedrock, f"select jobID from jobs where queue = '{'q' * 300}';") == []  # noqa: S608
    assert await _rows(bedrock, "select jobID from jobs where queue = '';") == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("select * from jobs where queue = 'a';", PushedFilter(queues=frozenset({"a"}))),
        ("select * from jobs where queue in ('a', 'b') and queue = 'b';", PushedFilter(queues=frozenset({"b"}))),
        ("select * from jobs where queue glob 'a*';", ALL_JOBS),
        ("select * from jobs where queue = 'a' or 1;", ALL_JOBS),
        ("select * from jobs where queue = name;", ALL_JOBS),
    ],
)
def test_conditions_on_queues_are_pushed_down(query: str, found: PushedFilter, engine: object) -> None:
    assert push_filter(query) == found


@pytest.mark.parametrize(
    ("query", "is_mentioned"),
    [
        ("select queue from jobs;", True),
        ("select jobs.QUEUE from jobs;", True),
        ("select [queue] from jobs;", True),
        ("select name as queue from jobs;", False),
        ("select 'queue' from jobs;", False),
        ("select 'it''s a queue' from jobs;", False),
        ('select "queue" from jobs;', False),
        ("select queued from jobs;", False),
        ("select 1 -- it's a queue\n from jobs;", False),
        ("select 1 /* it's a queue */ from jobs;", False),
        ("select 1 /* it's a queue from jobs;", False),
        ("select 1 /* ' */, queue /* ' */ from jobs;", True),
        ("select '/*', queue, '*/' from jobs;", True),
    ],
)
def test_mentions(query: str, is_mentioned: bool, engine: object) -> None:
    assert ("queue" in columns_for(query)) == is_mentioned
