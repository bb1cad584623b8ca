"""Jobs on the command line by any name, on an engine and over a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.service.helpers import counts, new, put, read
from tests.support.console import CliResult, run, run_ok, run_with_settings
from tests.support.threaded_server import threaded_server
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import download_id_of_number, format_id, short_id
from windlass.core.job import Blob, NewJob
from windlass.core.states import State
from windlass.service import Service
from windlass.service.aliases import lookup
from windlass.settings import Settings
from windlass.store import id_scan
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

UUID = "6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0001"


def make(service: Service, *jobs: NewJob) -> list[str]:
    return [format_id(made.id) for made in put(service, *jobs)]


def parse(key: str) -> bytes:
    return bytes.fromhex(key.replace("-", ""))


def processor_job() -> NewJob:
    return new(unique=UUID, unique_while_kept=True, payload=Blob(b'{"uuid": "%s"}' % UUID.encode()))


def test_show_finds_a_job_by_any_name(service: Service) -> None:
    added, ordered = make(service, processor_job(), new("downloads"))
    number = service.number([parse(ordered)]).one().wait()
    download_id = download_id_of_number(number)
    for alias, key in [(added, added), (UUID, added), (str(number), ordered), (download_id, ordered)]:
        assert run_ok(service, "jobs", "show", alias, "--json").document["id"] == key
    document = run_ok(service, "jobs", "show", ordered, "--json").document
    assert document["aliases"] == {"number": number, "processor_uuid": "", "download_id": download_id}
    shown = run_ok(service, "jobs", "show", UUID).out
    assert "processor uuid" in shown
    assert UUID in shown
    shown = run_ok(service, "jobs", "show", str(number)).out
    assert str(number) in shown
    assert download_id in shown


def test_no_number_is_assigned_by_a_look(service: Service) -> None:
    (key,) = make(service, new())
    assert run_ok(service, "jobs", "show", key, "--json").document["aliases"]["number"] is None
    assert service.assigned_number([parse(key)]).wait() == [None]


@pytest.mark.parametrize(
    ("verb", "state"),
    [("explain", State.QUEUED), ("requeue", State.QUEUED), ("edit --priority 7", State.QUEUED),
     ("cancel", State.CANCELLED), ("delete --yes", None)],
)  # fmt: skip
def test_every_verb_takes_any_name(service: Service, verb: str, state: State | None) -> None:
    (key,) = make(service, new(unique="order-7"))
    name, *options = verb.split()
    run_ok(service, "jobs", name, "order-7", *options)
    if state is None:
        assert counts(service) == {}
    else:
        assert read(service, parse(key)).state is state


def test_retry_by_number(service: Service) -> None:
    (key,) = make(service, new())
    number = service.number([parse(key)]).one().wait()
    service.cancel([parse(key)]).wait()
    assert run_ok(service, "jobs", "retry", str(number)).rows == [[key, "queued"]]


def test_an_ambiguous_name_lists_the_candidates_and_changes_nothing(service: Service) -> None:
    keys = make(service, new("a", unique="key"), new("b", unique="key"), new("c"))
    done = run(service, "jobs", "cancel", keys[2], "key")
    assert done.code == 1
    assert sorted(row[:2] for row in done.rows) == sorted([[keys[0], "a"], [keys[1], "b"]])
    assert "key may mean one of these jobs" in done.err
    assert counts(service, "c") == {"queued": 1}
    assert run_ok(service, "jobs", "cancel", "key", "--queue", "b").rows == [[keys[1], "cancelled"]]


def test_an_unknown_name_says_what_was_tried_and_changes_nothing(service: Service) -> None:
    (key,) = make(service, new())
    done = run(service, "jobs", "cancel", key, "nobody", "nothing")
    assert (done.code, done.rows) == (1, [])
    tried = "no job has this id, Bedrock job number, download id, processor uuid or other unique key."
    assert [line for line in done.err.splitlines() if tried in line] == [
        f"windlass: nobody: {tried}", f"windlass: nothing: {tried}",
    ]  # fmt: skip
    assert counts(service) == {"queued": 1}
    assert "in other." in run(service, "jobs", "show", key, "-q", "other").err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("deadbeef", "other unique key, and no id begins or ends with it."),
        ("f51", "other unique key; a part of an id needs 4 digits or more."),
        ("order-7", "other unique key."),
    ],
)
def test_what_could_be_a_part_of_an_id_is_named(service: Service, name: str, words: str) -> None:
    assert run(service, "jobs", "show", name).err.endswith(f"{words}\n")


def test_an_id_is_preferred(service: Service) -> None:
    (key,) = make(service, new())
    make(service, new("other", unique=key))
    assert run_ok(service, "jobs", "show", key, "--json").document["id"] == key
    assert run_ok(service, "jobs", "show", key, "-q", "other", "--json").document["unique"] == key


def test_an_incomplete_search_is_not_trusted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    make(service, new("a", unique="key"), new("b"))
    monkeypatch.setattr(lookup, "QUEUES_SEARCHED_MAX", 1)
    done = run(service, "jobs", "cancel", "key")
    assert done.code == 1
    assert "name the queue with --queue" in done.err
    run_ok(service, "jobs", "cancel", "key", "--queue", "a")


@pytest.mark.parametrize("verb", ["explain", "requeue", "edit --priority 7", "cancel", "delete --yes", "show"])
@pytest.mark.parametrize("shown", ["{}", "…{}", "...{}"])
def test_every_verb_takes_the_end_of_an_id(service: Service, verb: str, shown: str) -> None:
    (key,) = make(service, new())
    name, *options = verb.split()
    run_ok(service, "jobs", name, shown.format(key[-6:]), *options)


def test_the_beginning_of_an_id_and_an_id_with_an_ellipsis(service: Service) -> None:
    (key,) = make(service, new())
    for alias in (key[:20], f"{key[:20]}…", key[:25].upper(), f"{key}…", f"…{key}"):
        assert run_ok(service, "jobs", "show", alias, "--json").document["id"] == key


def test_a_part_of_several_ids_lists_the_candidates(service: Service) -> None:
    keys = make(service, new("a"), new("b"))
    done = run(service, "jobs", "cancel", keys[0][:6])
    assert (done.code, sorted(row[0] for row in done.rows)) == (1, sorted(keys))
    assert counts(service, "a") == {"queued": 1}
    assert run_ok(service, "jobs", "cancel", keys[0][:6], "-q", "b").rows == [[keys[1], "cancelled"]]


def test_an_incomplete_look_up_by_a_part_says_how_far_it_looked(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_scan, "LOOKED_AT_MAX", 10)
    monkeypatch.setattr(id_scan, "READ_AT_ONCE", 10)
    keys = make(service, *(new() for _ in range(12)))
    said = "Looked at the newest 10 jobs: give the whole id, or name the queue with --queue."
    done = run(service, "jobs", "cancel", keys[-1][-6:])
    assert (done.code, [row[0] for row in done.rows]) == (1, [keys[-1]])
    assert said in done.err
    done = run(service, "jobs", "cancel", keys[0][-6:])
    assert (done.code, done.rows) == (1, [])
    assert said in done.err
    assert counts(service) == {"queued": 12}
    assert run_ok(service, "jobs", "cancel", keys[-1][-12:]).rows == [[keys[-1], "cancelled"]], "it is certain"


def test_several_partitions(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    keys = make(service, *(new(f"queue {at}", unique=f"key {at}") for at in range(8)))
    answers = run_ok(service, "jobs", "cancel", *(f"key {at}" for at in range(8))).rows
    assert answers == [[key, "cancelled"] for key in keys]


# Over a server


@pytest.fixture
def remote(service: Service, store: Store) -> Iterator[Callable[..., CliResult]]:
    """Run commands that know only the server and a token for one queue."""
    store.open_sync()
    roles = frozenset({Role.READ, Role.PRODUCE})
    token = service.create_token(NewToken(name="cli", roles=roles, queues=("q",))).wait()
    with threaded_server(store.clone(), Settings(port=0, bedrock_port=0, roles="api")) as url:
        settings = {"WINDLASS_URL": url, "WINDLASS_TOKEN": token.text, "WINDLASS_NAMESPACE": ""}
        yield lambda *arguments: run_with_settings(*arguments, settings=settings)


def test_names_over_a_server(service: Service, remote: Callable[..., CliResult]) -> None:
    key, _, hidden = make(service, processor_job(), new("S3CRET", unique=UUID), new("S3CRET", unique="theirs"))
    number = service.number([parse(key)]).one().wait()
    for alias in (key, UUID, str(number)):
        shown = remote("jobs", "show", alias, "--json")
        assert shown.code == 0, shown
        assert (shown.document["id"], shown.document["aliases"]["processor_uuid"]) == (key, UUID)
    assert remote("jobs", "show", key[-6:], "--json").document["id"] == key
    assert short_id(parse(hidden)) == hidden[-6:]
    for alias in ("theirs", hidden, hidden[-6:], f"…{hidden[-12:]}"):
        done = remote("jobs", "show", alias)
        assert (done.code, done.out) == (1, "")
        assert "S3CRET" not in done.err
    assert remote("jobs", "cancel", UUID).rows == [[key, "cancelled"]]
    assert read(service, parse(key)).state is State.CANCELLED
