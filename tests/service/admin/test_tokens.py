"""Tokens: create, revoke, list; their stored form, and detection of changes by servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.support.namespace import dump_keys, list_keys, send_command
from windlass.core.access.tokens import NewToken, Role, parse_token
from windlass.core.errors import EngineFull, TokenExists, TooLarge, UnknownToken
from windlass.service import Service
from windlass.store.commands.admin import tokens as calls
from windlass.store.store import Store

PRODUCES = frozenset({Role.PRODUCE})


def create(service: Service, name: str = "shop", **fields: Any) -> Any:
    return service.create_token(NewToken(**({"name": name, "roles": PRODUCES} | fields))).wait()


def names(service: Service) -> list[str]:
    return [token.name for token in service.tokens().wait().tokens]


def test_a_token_comes_back_as_it_was_created(service: Service) -> None:
    asked = {
        "roles": frozenset({Role.READ, Role.WORK}),
        "queues": ("mail", "video-*"),
        "rate": 50,
        "note": "für den Läden",
        "expires_in_ms": 1_000,
    }
    made = create(service, "shöp 1", **asked)
    assert (made.token.roles, made.token.queues) == (asked["roles"], asked["queues"])
    assert (made.token.rate, made.token.note) == (50, "für den Läden")
    assert made.token.expires_at_ms == made.token.created_at_ms + 1_000
    found = service.tokens().wait()
    assert found.tokens == [made.token]
    assert found.now_ms >= made.token.created_at_ms
    shown = parse_token(made.text)
    assert (shown.id, made.token.verifies(shown.secret)) == (made.token.id, True)


def test_a_plain_token_never_expires(service: Service) -> None:
    assert create(service).token.expires_at_ms == 0


def test_the_secret_is_stored_nowhere(service: Service, store: Store) -> None:
    secret = parse_token(create(service).text).secret.encode()
    kept = send_command(store, "HGETALL", f"{store.root(0)}:tokens")
    assert secret not in b"".join(kept)
    assert list_keys(store) == [b"tokens", b"tokens_version"]


def test_two_tokens_share_neither_id_nor_secret(service: Service) -> None:
    first, second = parse_token(create(service, "a").text), parse_token(create(service, "b").text)
    assert first.id != second.id
    assert first.secret != second.secret


def test_a_name_is_given_once(service: Service, store: Store) -> None:
    create(service)
    before = dump_keys(store)
    with pytest.raises(TokenExists, match="token 'shop' exists already"):
        create(service, roles=frozenset({Role.ADMIN}))
    assert dump_keys(store) == before
    service.revoke_token("shop").wait()
    create(service)
    assert names(service) == ["shop"]


def test_a_repeated_call_after_a_lost_answer_is_the_same_token(service: Service, store: Store) -> None:
    made = create(service)
    shown = parse_token(made.text)
    before = dump_keys(store)
    store.clock_offset_ms += 5_000
    again = store.run_sync(_asking(calls.create_token(NewToken(name="shop", roles=PRODUCES), shown)))
    assert again == made.token
    assert dump_keys(store) == before


def _asking(call: Any) -> Any:
    return (yield call)


def test_a_revoked_token_is_gone(service: Service, store: Store) -> None:
    create(service, "a")
    create(service, "b")
    service.revoke_token("a").wait()
    assert names(service) == ["b"]
    before = dump_keys(store)
    with pytest.raises(UnknownToken, match="no token 'a'"):
        service.revoke_token("a").wait()
    assert dump_keys(store) == before


def test_tokens_are_listed_by_name(service: Service) -> None:
    for name in ("b", "a", "c", "B"):
        create(service, name)
    assert names(service) == ["B", "a", "b", "c"]


def test_every_change_gives_another_version_and_nothing_else_does(service: Service) -> None:
    versions = [service.tokens().wait().version]
    for change in (
        lambda: create(service, "a"),
        lambda: create(service, "b"),
        lambda: service.revoke_token("a").wait(),
    ):
        change()
        versions += [service.tokens().wait().version, service.tokens().wait().version]
    assert versions[1::2] == versions[2::2]
    assert versions[::2] == sorted(set(versions))


def test_the_version_grows_when_the_clock_goes_back(service: Service, store: Store) -> None:
    create(service, "a")
    before = service.tokens().wait().version
    store.clock_offset_ms -= 60_000
    create(service, "b")
    assert service.tokens().wait().version > before


def test_an_emptied_deployment_comes_to_no_version_again(service: Service, store: Store) -> None:
    create(service, "a")
    known = service.tokens().wait()
    send_command(store, "DEL", f"{store.root(0)}:tokens", f"{store.root(0)}:tokens_version")
    assert service.tokens(known).wait().tokens == []
    store.clock_offset_ms += 1
    create(service, "b")
    assert [token.name for token in service.tokens(known).wait().tokens] == ["b"]


def test_tokens_that_are_known_travel_only_when_they_have_changed(service: Service, store: Store) -> None:
    create(service, "a")
    known = service.tokens().wait()
    store.clock_offset_ms += 5_000
    same = service.tokens(known).wait()
    assert same.tokens is known.tokens
    assert same.now_ms >= known.now_ms + 5_000
    create(service, "b")
    assert len(service.tokens(known).wait().tokens) == 2


def test_there_is_room_for_so_many(service: Service, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TOKENS_MAX", 3)
    for name in ("a", "b", "c"):
        create(service, name)
    before = dump_keys(store)
    with pytest.raises(TooLarge, match="remove unused tokens"):
        create(service, "d")
    assert dump_keys(store) == before
    service.revoke_token("b").wait()
    create(service, "d")
    assert names(service) == ["a", "c", "d"]


def test_when_the_engine_is_full_tokens_can_be_revoked_and_none_created(service: Service, store: Store) -> None:
    create(service)
    send_command(store, "CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(EngineFull):
            create(service, "more")
        service.revoke_token("shop").wait()
        assert names(service) == []
    finally:
        send_command(store, "CONFIG", "SET", "maxmemory", "0")


@pytest.mark.parametrize("stored", [b"", b"x" * 12, b"x" * 12 + b"\x90", b"nonsense"])
def test_one_that_cannot_be_read_hides_no_other(service: Service, store: Store, stored: bytes) -> None:
    create(service, "b")
    send_command(store, "HSET", f"{store.root(0)}:tokens", "a", stored)
    assert names(service) == ["b"]
    service.revoke_token("a").wait()


def test_the_doctor_knows_them(service: Service) -> None:
    create(service)
    assert_healthy(service)


def test_they_are_not_exported(service: Service, target: Service) -> None:
    create(service)
    lines = list(service.export())
    assert not any(b"shop" in (line if isinstance(line, bytes) else line.encode()) for line in lines)
    target.import_jobs(lines).wait()
    assert names(target) == []


def test_with_several_partitions_there_is_one_set_of_tokens(divided_store: Any) -> None:
    service = Service(divided_store(4))
    create(service, "a")
    assert names(service) == ["a"]
    with pytest.raises(TokenExists):
        create(service, "a")
    assert_healthy(service)
