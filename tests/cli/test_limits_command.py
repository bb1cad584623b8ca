"""windlass limits: set, listed, removed."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from tests.support.console import run, run_ok
from windlass.core.job import Blob
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def test_set_ls_and_rm(service: Service) -> None:
    put(
        service,
        new("api", "call", payload=Blob(b'{"who": "ann"}')),
        new("api", "call", payload=Blob(b'{"who": "ann"}')),
    )
    output = run_ok(service, "limits", "set", "one each", "--queue", "api", "--running", "1", "--per-key", "who").out
    assert output == "Limit one each is set; 2 jobs updated.\n"
    assert len(take(service, "api", most=9)) == 1
    (row,) = run_ok(service, "limits", "ls").rows
    assert row[:6] == ["one each", "1 at once, each who", "queue=api", '"ann"', "1", "0"]
    (line,) = run_ok(service, "limits", "ls", "--json").lines
    assert (line["limit"]["name"], line["levels"][0]["key"], line["levels"][0]["room"]) == ("one each", '"ann"', 0)
    run_ok(service, "limits", "rm", "one each")
    assert len(take(service, "api", most=9)) == 1
    assert service.limits().wait() == []


def test_set_with_all_options(service: Service) -> None:
    options = '--queue q --name n --lane l --rate 5/10m --burst 2 --payload plan=free --payload age=7 --payload t="7"'
    run_ok(service, "limits", "set", "x", *options.split())
    (state,) = service.limits().wait()
    matches = Matcher(queue="q", name="n", lane="l", payload={"plan": "free", "age": 7, "t": "7"})
    assert state.limit == Limit(name="x", matches=matches, rate=5, per_ms=600_000, burst=2)
    matches = '{"name": {"prefix": "send_"}, "payload": {"size": {"gt": 9}}, "not": {"queue": {"in": ["a", "b"]}}}'
    run_ok(service, "limits", "set", "y", "--running", "1", "--matches", matches)
    state = service.limits().wait()[1]
    excluded = Matcher(queue=Condition(in_=("a", "b")))
    assert state.limit.matches == Matcher(
        name=Condition(prefix="send_"), payload={"size": Condition(gt=9)}, not_=excluded
    )
    assert run_ok(service, "limits", "ls").rows[1][2] == 'name~send_* size>9 not (queue in ["a","b"])'
    run_ok(service, "limits", "rm", "y")
    run_ok(service, "limits", "set", "x", "--rate", "100/s")
    (state,) = service.limits().wait()
    assert (state.limit.rate, state.limit.per_ms) == (100, 1_000)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--running", "1", "--rate", "1/s"),
        ("--running", "1", "--burst", "2"),
        ("--rate", "fast"),
        ("--rate", "5"),
        ("--rate", "5/"),
        ("--rate", "5/week"),
        ("--running", "1", "--payload", "plan"),
        ("--running", "-1"),
        ("--running", "1", "--matches", "plan"),
        ("--running", "1", "--matches", '{"payload": {"a": {"like": 7}}}'),
        ("--running", "1", "--matches", '{"not": ' * 10_000),
        ("--running", "1", "--matches", "{}", "--queue", "q"),
    ],
)
def test_refuses_invalid_limits(service: Service, options: tuple[str, ...]) -> None:
    assert run(service, "limits", "set", "x", *options).code == 2
    assert service.limits().wait() == []


def test_an_unknown_limit_exits_with_1(service: Service) -> None:
    done = run(service, "limits", "rm", "nothing")
    assert (done.code, done.err) == (1, "windlass: There is no limit 'nothing'.\n")


def test_the_cap_of_a_key(service: Service) -> None:
    service.limit(Limit(name="each", matches=Matcher(queue="api"), running=1, key="who", own_caps=True)).wait()
    put(service, *(new("api", "call", payload=Blob(b'{"who": "ann"}')) for _ in range(3)))
    assert len(take(service, "api", most=9)) == 1
    output = run_ok(service, "limits", "cap", "each", "ann", "--running", "3").out
    assert output == "Cap of ann: 3 at once; 1 running, 2 queued.\n"
    assert len(take(service, "api", most=9)) == 2
    run_ok(service, "limits", "cap", "each", "ann", "--note", "http://proxy:1")
    assert service.aggregation("each", "ann").wait().note == "http://proxy:1"
    assert run(service, "limits", "cap", "each", "ann").code == 2
    assert run(service, "limits", "cap", "each", "bob", "--running", "1").code == 1
