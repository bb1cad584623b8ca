"""end_session: ended sessions are stored until their cookies expire, and no longer."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.support.namespace import list_keys, send_command
from windlass.core.errors import BadInput
from windlass.service import Service
from windlass.store.store import Store

HOUR_S = 3600


def now_s(service: Service) -> int:
    return service.now().wait() // 1000


def ended(service: Service) -> dict[str, int]:
    return service.tokens().wait().ended_sessions


def test_an_ended_session_comes_with_the_tokens(service: Service, store: Store) -> None:
    before = service.tokens().wait()
    until_s = now_s(service) + HOUR_S
    service.end_session("token.session", until_s).wait()
    found = service.tokens(before).wait()
    assert found.version > before.version
    assert found.ended_sessions == {"token.session": until_s}
    assert service.tokens(found).wait().ended_sessions == {"token.session": until_s}
    assert list_keys(store) == [b"ended_sessions", b"tokens_version"]
    assert 0 < send_command(store, "TTL", f"{store.root(0)}:ended_sessions") <= HOUR_S + 1
    assert_healthy(service)


def test_the_later_end_counts(service: Service) -> None:
    until_s = now_s(service) + HOUR_S
    for at_s in (until_s, until_s + 5, until_s + 1):
        service.end_session("token.session", at_s).wait()
    assert ended(service) == {"token.session": until_s + 5}


def test_the_key_lives_as_long_as_the_last_of_them(service: Service, store: Store) -> None:
    for hours in (3, 1):
        service.end_session(f"token.{hours}", now_s(service) + hours * HOUR_S).wait()
    assert send_command(store, "TTL", f"{store.root(0)}:ended_sessions") > 2 * HOUR_S


def test_those_whose_cookies_are_over_are_forgotten(service: Service, store: Store) -> None:
    service.end_session("token.old", now_s(service) + HOUR_S).wait()
    store.clock_offset_ms = 2 * HOUR_S * 1000
    service.end_session("token.new", now_s(service) + HOUR_S).wait()
    assert list(ended(service)) == ["token.new"]


@pytest.mark.parametrize(("name", "until_s"), [("", 1), ("token.session", -1)])
def test_what_cannot_be_a_session(service: Service, name: str, until_s: int) -> None:
    with pytest.raises(BadInput):
        service.end_session(name, until_s)
