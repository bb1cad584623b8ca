"""Hostile input to the Bedrock port. tests/fuzz covers framing and parameters."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.dialects.bedrock.query import pool as query_pool
from windlass.dialects.bedrock.query import sqlite_query
from windlass.dialects.bedrock.refusals import CommandRefused

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

LONG = "printf('%.*c',2000000,'a')"
PART = "printf('%.*c',1000000,'a')||'b'"
OTHERS = "printf('%.*c',1000000,'c')"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"SELECT instr({LONG}, {PART});", [[0]]),
        (f"SELECT length(replace({LONG}, {PART}, 'x'));", [[2_000_000]]),
        (f"SELECT length(trim({LONG}, {OTHERS}));", [[2_000_000]]),
    ],
)
async def test_expensive_functions_are_fast(bedrock: BedrockCommands, text: str, answer: list[list[int]]) -> None:
    """SQLite's own functions take minutes for these, and cannot be interrupted."""
    assert (await bedrock.ok("Query", query=text)).body == answer


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'a' LIKE printf('%.*c',501,'a');",
        "SELECT unhex('00', ' ');",
        "SELECT json_patch('{}', '{}');",
        "SELECT zeroblob(100000000);",
        "SELECT load_extension('/nowhere/x');",
    ],
)
async def test_functions_that_are_unavailable(bedrock: BedrockCommands, text: str) -> None:
    assert (await bedrock("Query", query=text)).line == "402 Bad query"


FUNCTIONS = [
    "instr('héllo', 'l')", "instr(x'0102', x'02')", "instr('a', '')", "instr(NULL, 'a')", "instr(12345, 34)",
    "instr(x'6162', 'b')", "replace('abcabc', 'b', 'xx')", "replace('abc', '', 'x')", "replace(NULL, 'a', 'b')",
    "replace(121, 1, 3)", "trim('  a  ')", "ltrim('  a  ')", "rtrim('  a  ')", "trim('xyaxy', 'yx')",
    "ltrim('xxaxx', 'x')", "rtrim('xxaxx', 'x')", "trim('aaa', 'a')", "trim(NULL)", "trim('a', NULL)",
    "trim('abc', '')",
]  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_replaced_functions_agree_with_sqlite(text: str, engine: object) -> None:
    (expected,) = sqlite3.connect(":memory:").execute(f"SELECT {text}").fetchone()
    assert sqlite_query.run_query(f"SELECT {text};", []).rows == [["" if expected is None else expected]]


async def test_impossible_job_numbers(bedrock: BedrockCommands) -> None:
    number = await bedrock.running("a")
    assert (await bedrock("RequeueJobs", jobIDs=f"{'9' * 5000}, ², {number}")).line == "200 OK"
    for condition in (f"jobID = {'9' * 5000}", "jobID IN (²)", f"jobID IN (7, {'8' * 300})"):
        result = await bedrock("Query", query=f"SELECT name FROM jobs WHERE {condition};")  # noqa: S608
        assert result.line in ("200 OK", "402 Bad query")


async def test_a_lease_until_the_start_of_a_day(bedrock: BedrockCommands) -> None:
    number = await bedrock.create("a", retryAfter="+1 DAY, START OF DAY")
    assert (await bedrock.get("a"))["jobID"] == number
    assert await bedrock.state(number) == "RUNQUEUED"


async def test_data_that_only_looks_like_json(bedrock: BedrockCommands) -> None:
    await bedrock.create("a")
    result = await bedrock.ok("Query", query=f"SELECT '{'[' * 3000}' AS data FROM jobs;")  # noqa: S608
    assert result.body == [["[" * 3000]]


async def test_a_process_that_hangs_is_killed_at_the_time_limit(
    bedrock: BedrockCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 60)
    pool = bedrock.router._query.pool
    assert pool.pids == []
    await bedrock.ok("Query", query="SELECT 1;")
    (pid,) = pool.pids
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 0.3)
    os.kill(pid, signal.SIGSTOP)
    result = await bedrock("Query", query="SELECT 1;")
    assert result.line == "502 Query aborted"
    assert dict(result.reply.headers)["error"].startswith("The query took longer than 0.3 s")
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 60)
    assert (await bedrock.ok("Query", query="SELECT 2;")).body == [[2]]
    assert pid not in pool.pids


def most_memory_bytes(pid: int) -> int:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


async def test_memory_is_limited(bedrock: BedrockCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregate keeps its group in memory, outside of SQLite's own limits."""
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 60)
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 2000)"
    text = f"{many} SELECT length(json_group_array(printf('%.*c',1000000,'a'))) FROM c;"  # noqa: S608
    assert (await bedrock("Query", query=text)).line == "502 Query aborted"
    assert (await bedrock.ok("Query", query="SELECT 2;")).body == [[2]]
    (pid,) = bedrock.router._query.pool.pids
    assert most_memory_bytes(pid) < query_pool.MEMORY_BYTES + 100 * 1024 * 1024


async def test_disk_is_limited(bedrock: BedrockCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 60)
    monkeypatch.setattr(sqlite_query, "COPY_BYTES_MAX", 10_000_000)
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 50)"
    text = f"{many} SELECT x FROM c ORDER BY printf('%.*c%d',1000000,'a',x) LIMIT 100;"  # noqa: S608
    result = await bedrock("Query", query=text)
    assert result.line == "502 Query aborted"
    assert dict(result.reply.headers)["error"] == sqlite_query.TOO_MUCH_SPACE


async def test_processes_end_when_they_are_idle(bedrock: BedrockCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 60)
    monkeypatch.setattr(query_pool, "IDLE_S", 0.0)
    for _ in range(2):
        assert (await bedrock.ok("Query", query="SELECT 2;")).body == [[2]]
        async with asyncio.timeout(30):
            while bedrock.router._query.pool.pids:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_a_stop_ends_all_queries(bedrock: BedrockCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that run, that wait for a slot, and that come later."""
    monkeypatch.setattr(sqlite_query, "SECONDS_MAX", 20)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT COUNT(*) FROM c;"
    asked = [asyncio.create_task(bedrock("Query", query=endless)) for _ in range(query_pool.QUERIES_AT_ONCE + 2)]
    async with asyncio.timeout(30):
        while len(bedrock.router._query.pool.pids) < query_pool.QUERIES_AT_ONCE:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    bedrock.router.stop()
    for result in [*await asyncio.gather(*asked), await bedrock("Query", query="SELECT 1;")]:
        assert result.line == "502 Query aborted"
        assert dict(result.reply.headers)["error"] == query_pool.STOPPING


FORMATS = [
    "printf('%5d|%-5s|%05.1f|%x|%c|%q|%Q|%,d', 3, 'a', 2.5, 255, 'z', 'o''k', NULL, 1234567)", "printf('%s', NULL)",
    "format('%*d|%-*d|%.*f', 5, 1, 3, 2, 2, 1.5)", "printf('%%|%5%|%z', 'a')", "printf('no conversion', 1)",
    "printf('%d %')", "printf(NULL)", "printf()", "format('%.3s|%.*s', 'abcdef', 2, 'abc')", "printf('%!.20g', 0.1)",
    "printf('%.2000000000s', 'a')", "printf('%ld %lld %i', 1, 2, 3)", "printf(x'2564', 7)", "printf('%y', 1)",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMATS)
def test_printf_agrees_with_sqlite(text: str, engine: object) -> None:
    (expected,) = sqlite3.connect(":memory:").execute(f"SELECT {text}").fetchone()
    assert sqlite_query.run_query(f"SELECT {text};", []).rows == [["" if expected is None else expected]]


LARGE = [
    "printf('%2000000000d', 1)", "printf('%.*c', '2000000000', 'x')", "printf('%*s', -2000000000, 'x')",
    "printf('%.2000000000d', 1)", "format('%.100000000f', 1.5)", "printf('%*.*d', 2e9, 1, 1)",
    f"printf('{'%8000000c' * 500}')", "replace(printf('%.*c',1000000,'a'), 'a', printf('%.*c',1000,'b'))",
    "printf('%.*c', 8388609, 'x')", "hex(printf('%.*c', 4200000, 'x'))",
]  # fmt: skip


@pytest.mark.parametrize("text", LARGE)
def test_texts_that_would_be_too_long_are_refused_in_advance(text: str, engine: object) -> None:
    used_s = time.process_time()
    with pytest.raises(CommandRefused) as refused:
        sqlite_query.run_query(f"SELECT length({text});", [])
    assert (refused.value.status, refused.value.reason) == sqlite_query.ABORTED
    assert "8,388,608 bytes" in refused.value.detail
    assert time.process_time() - used_s < 5  # SQLite's own take up to 20 s for one of them


@pytest.mark.parametrize("name", ["fts3_tokenizer", "sqlite_log", "rtreecheck", "load_extension", "randomblob"])
def test_functions_that_are_not_listed_are_refused(name: str, engine: object) -> None:
    with pytest.raises(sqlite_query.BadQuery):
        sqlite_query.run_query(f"SELECT {name}('a');", [])


USED = [
    "upper('a')||lower('B')||substr('abc',2)||length('abc')||coalesce(NULL,'d')||iif(1,'e','f')",
    "round(abs(-1.25), 1)", "json_extract('{\"a\":[1,2]}','$.a[1]')", "'{\"a\":3}' ->> '$.a'",
    "strftime('%Y', '2030-01-02')", "datetime('2030-01-02', '+1 day')", "group_concat('a')", "'abc' LIKE 'a%'",
    "(SELECT max(n) FROM (SELECT row_number() OVER () AS n FROM (SELECT 1 UNION SELECT 2)))", "hex('a')", "quote('a')",
    "char(65, 66)", "unicode('a')", "typeof(1)", "total(2)", "'abc' GLOB 'a*'",
]  # fmt: skip


@pytest.mark.parametrize("text", USED)
def test_usual_functions_are_allowed(text: str, engine: object) -> None:
    (expected,) = sqlite3.connect(":memory:").execute(f"SELECT {text}").fetchone()
    assert sqlite_query.run_query(f"SELECT {text};", []).rows == [[expected]]
