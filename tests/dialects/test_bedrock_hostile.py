"""What somebody sends to Bedrock's port to break it, beyond framing and parameters, which tests/fuzz has."""

from __future__ import annotations

import sqlite3

import pytest
from bedrock_desk import AtDesk

from windlass.dialects.bedrock import query

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
async def test_work_that_no_clock_would_end_is_little(desk: AtDesk, text: str, answer: list[list[int]]) -> None:
    """SQLite's own functions take minutes for these, and nothing ends them before."""
    assert (await desk.good("Query", query=text)).body == answer


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
async def test_functions_that_are_not_to_be_had(desk: AtDesk, text: str) -> None:
    assert (await desk("Query", query=text)).line == "402 Bad query"


FUNCTIONS = [
    "instr('héllo', 'l')", "instr(x'0102', x'02')", "instr('a', '')", "instr(NULL, 'a')", "instr(12345, 34)",
    "instr(x'6162', 'b')", "replace('abcabc', 'b', 'xx')", "replace('abc', '', 'x')", "replace(NULL, 'a', 'b')",
    "replace(121, 1, 3)", "trim('  a  ')", "ltrim('  a  ')", "rtrim('  a  ')", "trim('xyaxy', 'yx')",
    "ltrim('xxaxx', 'x')", "rtrim('xxaxx', 'x')", "trim('aaa', 'a')", "trim(NULL)", "trim('a', NULL)",
    "trim('abc', '')",
]  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_our_functions_say_what_sqlites_own_do(text: str, engine: object) -> None:
    (expected,) = sqlite3.connect(":memory:").execute(f"SELECT {text}").fetchone()
    assert query.run(f"SELECT {text};", []).rows == [["" if expected is None else expected]]


async def test_numbers_that_nobody_can_have(desk: AtDesk) -> None:
    number = await desk.running("a")
    assert (await desk("RequeueJobs", jobIDs=f"{'9' * 5000}, ², {number}")).line == "200 OK"
    for condition in (f"jobID = {'9' * 5000}", "jobID IN (²)", f"jobID IN (7, {'8' * 300})"):
        said = await desk("Query", query=f"SELECT name FROM jobs WHERE {condition};")  # noqa: S608
        assert said.line in ("200 OK", "402 Bad query")


async def test_a_lease_until_the_start_of_a_day(desk: AtDesk) -> None:
    number = await desk.create("a", retryAfter="+1 DAY, START OF DAY")
    assert (await desk.get("a"))["jobID"] == number
    assert await desk.state(number) == "RUNQUEUED"


async def test_data_that_only_looks_like_json(desk: AtDesk) -> None:
    await desk.create("a")
    said = await desk.good("Query", query=f"SELECT '{'[' * 3000}' AS data FROM jobs;")  # noqa: S608
    assert said.body == [["[" * 3000]]
