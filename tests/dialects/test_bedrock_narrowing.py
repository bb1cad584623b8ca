"""Which conditions of a query narrow the jobs that are looked at: only what is surely understood."""

from __future__ import annotations

import pytest

from windlass.dialects.bedrock.query.filter_pushdown import EVERYTHING, Narrowed, narrowed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("select * from jobs;", EVERYTHING),
        ("select * from jobs where jobID = 5;", Narrowed(numbers=frozenset({5}))),
        ("SELECT * FROM jobs WHERE JOBID IN (5, 6) AND jobID == 6 limit 3;", Narrowed(numbers=frozenset({6}))),
        ("select * from jobs where state = 'QUEUED' and name glob 'a*';", Narrowed(None, frozenset({"QUEUED"}), "a*")),
        ("select * from jobs where name = 'it''s' order by 1;", Narrowed(name="it's")),
        ("select * from jobs where name = 'a*';", EVERYTHING),
        ("select * from jobs where (jobID = 5);", EVERYTHING),
        ("select * from jobs where jobID = 5 or 1;", EVERYTHING),
        ("select * from jobs where jobID = 5 + 1;", EVERYTHING),
        ("select * from jobs where not jobID = 5;", EVERYTHING),
        ("select * from jobs where state > 'A';", EVERYTHING),
        ("select * from jobs where state = 'queued' collate nocase;", EVERYTHING),
        ("select * from jobs where jobID = 5 union select * from jobs;", EVERYTHING),
        ("select * from jobs a, jobs where jobID = 5;", EVERYTHING),
        ("select 'from jobs where jobID = 5';", EVERYTHING),
        ("select * from jobs where jobID = 5 -- ' or 1;\n;", EVERYTHING),
        ("select (select 1) from jobs where jobID = 5;", EVERYTHING),
    ],
)
def test_what_narrows(text: str, found: Narrowed) -> None:
    assert narrowed(text) == found
