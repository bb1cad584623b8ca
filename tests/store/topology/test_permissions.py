"""Engine users with restricted permissions: Windlass names what is missing, and works without optional permissions."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.acl_user import LIMIT_S, USER, create_restricted_user, flush_engine, send_command, wait_until
from tests.support.engine_process import EngineProcess
from windlass.core.errors import EngineError, EngineNotPermitted
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.pauses import Pauses
from windlass.service import Service
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.endpoint import parse_url
from windlass.store.events.shared_follow import SharedFollower
from windlass.store.events.stream_reader import READ_AT_ONCE
from windlass.store.scripts import library, module_source, modules, operation_source, operations
from windlass.store.store import Store
from windlass.store.topology import permissions
from windlass.store.topology.preparation import prepare

pytestmark = pytest.mark.anyio
DOCS = Path(__file__).parents[3] / "docs" / "engines.md"
REQUIRED = [permission for permission in (*permissions.SENT, *permissions.INSIDE) if permission.is_required]


@pytest.fixture(scope="module", params=["valkey", "redis"])
def shared_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param, config=("--appendonly", "yes", "--appendfsync", "no")) as engine:
        yield engine


@pytest.fixture
def own_engine(shared_engine: EngineProcess) -> Iterator[EngineProcess]:
    yield shared_engine
    flush_engine(shared_engine)


@pytest.fixture
def prepared(own_engine: EngineProcess) -> EngineProcess:
    prepare(new_store(own_engine.unix_url).topology, 5.0)
    return own_engine


def new_store(url: str, **options: Any) -> Store:
    return Store(parse_url(url), **({"namespace": "wl", "patience_s": 5.0} | options))


def job(**kw: Any) -> NewJob:
    return NewJob(**({"queue": "q", "name": "n"} | kw))


def opening_refused(url: str, **options: Any) -> str:
    store = new_store(url, **options)
    try:
        with pytest.raises(EngineNotPermitted) as refused:
            store.open_sync()
    finally:
        store.close_sync()
    return str(refused.value)


# The documented permissions are enough


async def test_a_user_with_the_documented_permissions_can_do_everything(prepared: EngineProcess) -> None:
    async with new_store(create_restricted_user(prepared)) as store:
        service = Service(store)
        (added,) = await service.enqueue([job()])
        taking = asyncio.ensure_future(service.take(Take(queues=("later",), most=1, wait_ms=60_000)))
        (taken,) = (await service.take(Take(queues=("q",), most=1))).jobs
        await service.finish([Finish(taken.id, taken.lease_token)])
        await service.enqueue([job(queue="later")])
        assert len((await taking).jobs) == 1  # woken through its list
        assert added.id == taken.id
        diagnosis = await service.doctor(repair=True)
        assert diagnosis.is_healthy
        assert store.deployment is not None
        assert [permission.name for permission in store.deployment.lacking] == ["evalsha", "function|load"]


def test_the_documented_permissions_without_an_event_loop(prepared: EngineProcess) -> None:
    store = new_store(create_restricted_user(prepared))
    assert len(Service(store).enqueue([job()]).wait()) == 1
    Service(store).ping().wait()
    store.close_sync()


def test_the_checked_permissions_are_those_that_the_functions_use() -> None:
    sources = [operation_source(name) for name in operations()] + [module_source(name) for name in modules()]
    called = re.compile(r"redis\.p?call\('([A-Z]+)'(?:, '(ENCODING)')?|call_in_parts\('([A-Z]+)'|= '([SHZ]?SCAN)'")
    used = {"|".join(word for word in found if word).lower() for source in sources for found in called.findall(source)}
    checked = {permission.name for permission in (*permissions.INSIDE, *permissions.SENT)}
    assert used <= checked, f"src/windlass/store/topology/permissions.py does not check {used - checked}"
    words = {word.lower() for source in sources for word in re.findall(r"'([A-Z]+)'", source)}
    idle = {permission.name for permission in permissions.INSIDE if permission.name.partition("|")[0] not in words}
    assert not idle, "checked, and used by no function"


def test_every_permission_is_checked_by_a_complete_call(own_engine: EngineProcess) -> None:
    """The engine crashes when it checks an incomplete call."""
    for permission in permissions.required_permissions(is_cluster=True):
        (about,) = send_command(own_engine, "COMMAND", "INFO", permission.name)
        if about is None:
            assert permission.name == "waitaof"  # from 7.2 on
            continue
        count, arity = len(permission.example.split()), about[1]
        assert count == arity if arity > 0 else count >= -arity, permission
    assert send_command(own_engine, "PING") == b"PONG"


# Missing permissions are reported


@pytest.mark.parametrize("permission", REQUIRED, ids=lambda permission: permission.name)
def test_a_missing_permission_is_named_with_its_purpose_before_any_write(
    prepared: EngineProcess, permission: permissions.Permission
) -> None:
    message = opening_refused(create_restricted_user(prepared, f"-{permission.name}"))
    purpose = permissions.purpose_of(permission.name)
    assert f"The engine's user '{USER}' may not call {permission.display_name} (needed {purpose})." in message
    assert f"`ACL SETUSER {USER} +{permission.name}`" in message
    assert "docs/engines.md" in message
    assert "NOPERM" not in message
    assert send_command(prepared, "DBSIZE") == 0


def test_several_missing_permissions_are_named_at_once(prepared: EngineProcess) -> None:
    message = opening_refused(create_restricted_user(prepared, "-fcall", "-blpop", "-zadd", "-hset"))
    assert "FCALL (needed to call the functions of Windlass)" in message
    assert "HSET, ZADD (needed inside the functions of Windlass)" in message
    assert "+fcall +blpop +hset +zadd`" in message


def test_a_user_of_other_keys(prepared: EngineProcess) -> None:
    message = opening_refused(create_restricted_user(prepared, namespace="other"))
    assert "may not use keys such as 'wl:{0}'" in message
    assert f"`ACL SETUSER {USER} ~wl:*`" in message


def test_an_engine_without_the_functions_and_a_user_that_may_not_load_them(own_engine: EngineProcess) -> None:
    message = opening_refused(create_restricted_user(own_engine))
    assert library().name in message
    assert "may not call FUNCTION LOAD" in message
    assert "`windlass engine prepare --url URL`" in message
    assert send_command(own_engine, "DBSIZE") == 0


async def test_lost_functions_are_not_sent_by_a_user_that_may_not_load_them(prepared: EngineProcess) -> None:
    async with new_store(create_restricted_user(prepared)) as store:
        send_command(prepared, "FUNCTION", "FLUSH")
        send_command(prepared, "CONFIG", "RESETSTAT")
        for _ in range(3):
            with pytest.raises(EngineNotPermitted, match="windlass engine prepare"):
                await Service(store).enqueue([job()])
        with pytest.raises(EngineNotPermitted, match="windlass engine prepare"):
            Service(store).enqueue([job()]).wait()
        assert b"cmdstat_function|load" not in send_command(prepared, "INFO", "commandstats")
        prepare(new_store(prepared.unix_url).topology, 5.0)
        assert len(await Service(store).enqueue([job()])) == 1


@pytest.mark.parametrize(("rule", "display_name"), [("-fcall", "FCALL"), ("-time", "TIME")])
def test_a_permission_that_is_withdrawn_later(prepared: EngineProcess, rule: str, display_name: str) -> None:
    store = new_store(create_restricted_user(prepared))
    store.open_sync()
    send_command(prepared, "ACL", "SETUSER", USER, rule)
    with pytest.raises(EngineNotPermitted, match=f"may not call {display_name}") as refused:
        Service(store).enqueue([job()]).wait() if display_name == "FCALL" else Service(store).now().wait()
    assert "NOPERM" not in str(refused.value)
    store.close_sync()


async def test_a_permission_that_is_withdrawn_later_when_awaited(prepared: EngineProcess) -> None:
    async with new_store(create_restricted_user(prepared)) as store:
        send_command(prepared, "ACL", "SETUSER", USER, "-fcall")
        with pytest.raises(EngineNotPermitted, match="may not call FCALL"):
            await Service(store).enqueue([job()])


def test_a_permission_that_a_function_lacks_later(prepared: EngineProcess) -> None:
    store = new_store(create_restricted_user(prepared))
    store.open_sync()
    send_command(prepared, "ACL", "SETUSER", USER, "-exists", "-get", "-hget", "-hmget")
    with pytest.raises(EngineNotPermitted, match=r"The engine's user.*docs/engines"):
        Service(store).enqueue([job(unique="u")]).wait()
    store.close_sync()


async def test_a_waiting_taker_continues_when_the_permission_is_back(
    prepared: EngineProcess, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.store.connection.retry_policy.PERMANENT_PAUSE_S", 0.01)
    async with new_store(create_restricted_user(prepared)) as store:
        service = Service(store)
        taking = asyncio.ensure_future(service.take(Take(queues=("q",), most=1, wait_ms=60_000)))
        await wait_until(lambda: is_blocked(prepared), "it waits")
        send_command(prepared, "ACL", "SETUSER", USER, "-blpop")
        send_command(prepared, "CLIENT", "KILL", "TYPE", "normal")
        await wait_until(lambda: "may not call BLPOP" in caplog.text, "it reports the missing permission")
        send_command(prepared, "ACL", "SETUSER", USER, "+blpop")
        await wait_until(lambda: is_blocked(prepared), "it waits again")
        await service.enqueue([job()])
        assert len((await taking).jobs) == 1


async def test_a_follower_that_catches_up_continues_when_the_permission_is_back(
    prepared: EngineProcess, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.retry_loop.STEADY", Pauses(0.01, 0.01))
    async with new_store(create_restricted_user(prepared)) as store:
        service = Service(store)
        count = 2 * READ_AT_ONCE + 1
        async with service.follow(shared=True) as first:
            await service.enqueue([job(name=str(number)) for number in range(READ_AT_ONCE)])
            await service.enqueue([job(name=str(number)) for number in range(READ_AT_ONCE, count)])
            async with service.follow(first.position, shared=True) as late:
                send_command(prepared, "ACL", "SETUSER", USER, "-fcall")
                names = [(await late.next()).name for _ in range(READ_AT_ONCE)]
                rest = asyncio.create_task(_names(late, count - READ_AT_ONCE))
                await wait_until(lambda: "Could not read events" in caplog.text, "it reports the missing permission")
                send_command(prepared, "ACL", "SETUSER", USER, "+fcall")
                assert names + await rest == [str(number) for number in range(count)]


async def _names(following: SharedFollower, count: int) -> list[str]:
    async with asyncio.timeout(LIMIT_S):
        return [(await following.next()).name for _ in range(count)]


def is_blocked(engine: EngineProcess) -> bool:
    return b"blocked_clients:1" in send_command(engine, "INFO", "clients")


# Optional permissions


@pytest.mark.parametrize("rule", ["-config|get", "-function|list", "-client|setname", "-wait"])
def test_optional_permissions(prepared: EngineProcess, rule: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass.store")
    store = new_store(create_restricted_user(prepared, rule))
    assert len(Service(store).enqueue([job()]).wait()) == 1
    assert Service(store).doctor().wait().is_healthy
    store.close_sync()
    lines = [line for line in caplog.messages if "CONFIG GET" in line]
    assert len(lines) == (rule == "-config|get"), "one line, and only for this permission"


def test_a_durability_that_cannot_be_confirmed_is_refused_before_the_write(prepared: EngineProcess) -> None:
    url = create_restricted_user(prepared, "-wait")
    assert "WAIT (needed to confirm" in opening_refused(url, durability="replica")
    store = new_store(url)
    with pytest.raises(EngineNotPermitted, match="WAIT"):
        Service(store).enqueue([job()], durability="replica").wait()
    (stats,) = Service(store).stats(["q"]).wait()
    assert stats.queued == 0
    store.close_sync()


# Texts


def test_it_is_an_engine_error_with_its_own_code() -> None:
    assert issubclass(EngineNotPermitted, EngineError)
    assert EngineNotPermitted.code == "engine_not_permitted"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("NOPERM this user has no permissions to run the 'info' command", "may not call INFO (needed to check"),
        ("NOPERM User ann has no permissions to run the 'xread' command", "user 'ann' may not call XREAD"),
        ("NOPERM User ann has no permissions to run the 'function|load' command", "windlass engine prepare"),
        ("NOPERM User ann has no permissions to run the 'newer' command", "may not call NEWER"),
        ("NOPERM No permissions to access a key", "~NAMESPACE:*"),
        ("NOPERM this user has no permissions to access one of the keys used as arguments", "~NAMESPACE:*"),
        ("NOPERM something else", "docs/engines.md"),
        ("ERR ACL failure in script: User w has no permissions to run the 'hset' command", "may not call HSET"),
        ("ERR The user executing the script can't run this command or subcommand script: f", "docs/engines.md"),
        ("ERR The user executing the script can't access at least one of the keys mentioned", "~NAMESPACE:*"),
    ],
)  # fmt: skip
def test_text_of_a_refusal(reply: str, words: str) -> None:
    found = permissions.explain_refusal(EngineReplyError(reply))
    assert type(found) is EngineNotPermitted
    assert words in str(found)
    assert "docs/engines.md" in str(found)


@pytest.mark.parametrize("reply", ["ERR Function not found", "OOM command not allowed", "WRONGPASS invalid"])
def test_other_errors_are_unchanged(reply: str) -> None:
    error = EngineReplyError(reply)
    assert permissions.explain_refusal(error) is error


def test_the_documented_table_and_rules_match_the_checked_permissions() -> None:
    text = DOCS.read_text()
    for permission in (*permissions.SENT, *permissions.SENT_TO_CLUSTER, *permissions.SENT_FIRST):
        assert f"`{permission.display_name}`" in text, f"docs/engines.md does not name {permission.display_name}"
    line = re.search(r"^ACL SETUSER windlass on >PASSWORD (.+)$", text, re.MULTILINE)
    assert line is not None
    assert line[1].split() == permissions.acl_rules("wl")
