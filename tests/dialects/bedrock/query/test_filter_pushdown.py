"""Filter pushdown: conditions of a query that limit the jobs to copy."""

from __future__ import annotations

import pytest

from windlass.dialects.bedrock.query.filter_pushdown import ALL_JOBS, PushedFilter, push_filter


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("select * from jobs;", ALL_JOBS),
        ("select * from jobs where jobID = 5;", PushedFilter(numbers=frozenset({5}))),
        ("SELECT * FROM jobs WHERE JOBID IN (5, 6) AND jobID == 6 limit 3;", PushedFilter(numbers=frozenset({6}))),
        (
            "select * from jobs where state = 'QUEUED' and name glob 'a*';",
            PushedFilter(None, frozenset({"QUEUED"}), "a*"),
        ),
        ("select * from jobs where name = 'it''s' order by 1;", PushedFilter(name="it's")),
        ("select * from jobs where name = 'a*';", ALL_JOBS),
        ("select * from jobs where (jobID = 5);", ALL_JOBS),
        ("select * from jobs where jobID = 5 or 1;", ALL_JOBS),
        ("select * from jobs where jobID = 5 + 1;", ALL_JOBS),
        ("select * from jobs where not jobID = 5;", ALL_JOBS),
        ("select * from jobs where state > 'A';", ALL_JOBS),
        ("select * from jobs where state = 'queued' collate nocase;", ALL_JOBS),
        ("select * from jobs where jobID = 5 union select * from jobs;", ALL_JOBS),
        ("select * from jobs a, jobs where jobID = 5;", ALL_JOBS),
        ("select 'from jobs where jobID = 5';", ALL_JOBS),
        ("select * from jobs where jobID = 5 -- ' or 1;\n;", ALL_JOBS),
        ("select (select 1) from jobs where jobID = 5;", ALL_JOBS),
    ],
)
def test_conditions_that_are_pushed_down(text: str, found: PushedFilter) -> None:
    assert push_filter(text) == found
