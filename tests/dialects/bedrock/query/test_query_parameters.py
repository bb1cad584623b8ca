"""Parameters of Query in the form of Bedrock's clients, and `.schema`."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.dialects.bedrock.query import sqlite_query
from windlass.dialects.bedrock.query.filter_pushdown import ALL_JOBS, PushedFilter, push_filter
from windlass.dialects.bedrock.query.sqlite_query import COLUMNS

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


def text(value: str) -> str:
    return "T" + base64.b64encode(value.encode()).decode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("N", ["null", ""]),
        ("", ["null", ""]),
        ("I-9223372036854775808", ["integer", -9223372036854775808]),
        ("D1.5", ["real", 1.5]),
        ("D1e-07", ["real", 1e-07]),
        (text(""), ["text", ""]),
        (text("it's\nü \x00;"), ["text", "it's\nü \x00;"]),
        ("BAGFi", ["blob", "\x00ab"]),
    ],
)
async def test_types(bedrock: BedrockCommands, value: str, expected: list[Any]) -> None:
    raw = {"sql-param-#3Avalue": value}
    assert (await bedrock.ok("Query", query="SELECT typeof(:value), :value;", raw=raw)).body == [expected]


async def test_names_have_the_prefix_of_the_query_and_no_case(bedrock: BedrockCommands) -> None:
    raw = {"sql-param-#3AjobID": "I1", "SQL-Param-#40b": "I2", "sql-param-#24c": "I3", "sql-param-plain": "I4"}
    result = await bedrock.ok("Query", query="SELECT :jobID, @b, $c, :plain;", raw=raw)
    assert result.body == [[1, 2, 3, 4]]


async def test_the_one_line_form_has_parameters_too(bedrock: BedrockCommands) -> None:
    await bedrock.create("it's")
    result = await bedrock.ok(
        "Query: SELECT jobID FROM jobs WHERE name = :name;", raw={"sql-param-#3Aname": text("it's")}
    )
    assert result.body == [[1]]


@pytest.mark.parametrize(
    ("asked", "raw", "line"),
    [
        ("SELECT :a;", {"sql-param-#3Aa": "X1"}, "402 Malformed sql-param-#3aa"),
        ("SELECT :a;", {"sql-param-#3Aa": "Ione"}, "402 Malformed sql-param-#3aa"),
        ("SELECT :a;", {"sql-param-#3Aa": "I9223372036854775808"}, "402 Malformed sql-param-#3aa"),
        ("SELECT :a;", {"sql-param-#3Aa": "D1_0"}, "402 Malformed sql-param-#3aa"),
        ("SELECT :a;", {"sql-param-#3Aa": "T!!!!"}, "402 Malformed sql-param-#3aa"),
        ("SELECT :a;", {"sql-param-#3Aa": "T/w=="}, "402 Malformed sql-param-#3aa"),
        ("SELECT :a;", {"sql-param-#3Aa": "I1", "sql-param-#40a": "I2"}, "402 Malformed sql-param-#40a"),
        ("SELECT :a, :b;", {"sql-param-#3Aa": "I1"}, "402 Bad query"),
        ("SELECT ?;", {"sql-param-#3Aa": "I1"}, "402 Bad query"),
        ("SELECT :a;", {}, "402 Bad query"),
    ],
)
async def test_malformed_parameters_are_refused(
    bedrock: BedrockCommands, asked: str, raw: dict[str, str], line: str
) -> None:
    assert (await bedrock("Query", query=asked, raw=raw)).line == line


async def test_a_parameter_is_never_read_as_sql(bedrock: BedrockCommands) -> None:
    await bedrock.create("a")
    raw = {"sql-param-#3Aname": text("a' OR 1 --")}
    assert (await bedrock.ok("Query", query="SELECT 1 FROM jobs WHERE name = :name;", raw=raw)).body == []


async def test_parameters_that_are_too_long(bedrock: BedrockCommands) -> None:
    raw = {"sql-param-#3Aa": text("x" * (sqlite_query.TEXT_BYTES_MAX + 1))}
    assert (await bedrock("Query", query="SELECT length(:a);", raw=raw)).line == "502 Query aborted"


@pytest.mark.parametrize(
    ("asked", "parameters", "found"),
    [
        ("select * from jobs where jobID = :id;", {"id": 5}, PushedFilter(numbers=frozenset({5}))),
        ("select * from jobs where jobID in (@a, $B);", {"a": 5, "b": 6}, PushedFilter(numbers=frozenset({5, 6}))),
        ("select * from jobs where name = :n and state = :s;", {"n": "it's", "s": "QUEUED"},
         PushedFilter(None, frozenset({"QUEUED"}), "it's")),
        ("select * from jobs where name = :n;", {"n": "a*"}, ALL_JOBS),
        ("select * from jobs where jobID = :id;", {"id": -5}, ALL_JOBS),
        ("select * from jobs where jobID = :id;", {"id": "5"}, ALL_JOBS),
        ("select * from jobs where jobID = :id;", {"id": None}, ALL_JOBS),
        ("select * from jobs where jobID = :id;", {}, ALL_JOBS),
        ("select * from jobs where jobID = :id + 1;", {"id": 5}, ALL_JOBS),
        ("select * from jobs where name = :n;", {"n": b"a"}, ALL_JOBS),
        ("select * from jobs where name = ':n';", {"n": "a"}, PushedFilter(name=":n")),
    ],
)  # fmt: skip
def test_parameters_are_pushed_down(
    asked: str, parameters: dict[str, Any], found: PushedFilter, engine: object
) -> None:
    assert push_filter(asked, parameters) == found


@pytest.mark.parametrize("asked", [".schema", ".schema;", " .SCHEMA  jobs ", ".schema jobs;", ".schema j%"])
async def test_the_schema(bedrock: BedrockCommands, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bedrock.service, "jobs", None)  # no job is copied for it
    ((result,),) = (await bedrock.ok("Query", query=asked)).body
    assert result.startswith("CREATE TABLE jobs (")
    assert all(column in result for column in COLUMNS)


async def test_the_schema_of_a_table_that_is_not_there(bedrock: BedrockCommands) -> None:
    assert (await bedrock.ok("Query", query=".schema other")).body == []
    assert (await bedrock.ok("Query: .schema it's")).body == []
    assert (await bedrock("Query", query=".tables")).line == "502 Query Missing Semicolon"


async def test_the_schema_with_headers(bedrock: BedrockCommands) -> None:
    assert (await bedrock.ok("Query", query=".schema", Format="json")).body["headers"] == ["sql"]
