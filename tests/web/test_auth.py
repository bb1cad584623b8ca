"""Tests of authentication: without tokens this machine is admitted but no web page; with tokens a token is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from windlass.core.access.tokens import NewToken, Principal, Role
from windlass.core.errors import Forbidden, TooManyRequests, Unauthorized, WindlassError
from windlass.service import Service
from windlass.web.app.auth import ANONYMOUS, LOCAL, Authenticator
from windlass.web.app.router import ADMINS, PRODUCERS, READERS
from windlass.web.app.token_table import TokenTable
from windlass.web.listener.messages import Head

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
STATIC = "a text from the settings"


def _head(**headers: str) -> Head:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Head("POST", "/api/v1/jobs", "", named, "127.0.0.1")


@pytest.fixture
async def table(service: Service) -> AsyncIterator[TokenTable]:
    await service.store.open()
    table = TokenTable(service)
    yield table
    await table.close()
    await service.store.close()


@pytest.fixture
def authenticator(table: TokenTable) -> Authenticator:
    return Authenticator(table, is_open=True, is_local=True)


async def _admitted(authenticator: Authenticator, head: Head, roles: frozenset[Role] | None = PRODUCERS) -> Principal:
    """Admit a request as the application does: from the cache if possible. Both ways must give the same result."""
    slowly = await _outcome(authenticator, head, roles)
    at_once: Principal | type[WindlassError] | None
    try:
        at_once = authenticator.admit_cached(head, roles)
    except WindlassError as refused:
        at_once = type(refused)
    assert at_once in (None, slowly if isinstance(slowly, Principal) else type(slowly))
    if isinstance(slowly, WindlassError):
        raise slowly
    return slowly


async def _outcome(
    authenticator: Authenticator, head: Head, roles: frozenset[Role] | None
) -> Principal | WindlassError:
    try:
        return ANONYMOUS if roles is None else await authenticator.admit(head, roles)
    except WindlassError as refused:
        return refused


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "LOCALHOST:1",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.8.9.10",
        "[::1]:8080",
    ],
)
async def test_this_machine_is_admin_while_there_is_no_token(authenticator: Authenticator, host: str) -> None:
    assert await _admitted(authenticator, _head(host=host), ADMINS) is LOCAL
    assert authenticator.admit_cached(_head(host=host), ADMINS) is LOCAL  # from the cache
    assert await _admitted(authenticator, _head(host=host, authorization="Basic eDp5"), ADMINS) is LOCAL


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io:8080",
        "evil.example:8080",
        "192.168.1.5",
        "0.0.0.0:8080",
        "[::]",
        "[fe80::1]",
        "::1",
        "localhost@evil.example",
        "evil@localhost",
        "localhost/x",
        "localhost#",
        "localhost, evil.example",
        "[::1",
        "127.1",
        "2130706433",
        "localhost:80:80",
    ],
)
async def test_another_name_for_this_machine_is_refused(authenticator: Authenticator, host: str) -> None:
    """Check DNS rebinding: a foreign host name may resolve to this machine."""
    with pytest.raises(Forbidden, match=r"localhost only.*tokens create"):
        await _admitted(authenticator, _head(host=host))


async def test_a_request_without_a_host_is_refused(authenticator: Authenticator) -> None:
    with pytest.raises(Forbidden):
        await _admitted(authenticator, _head())


@pytest.mark.parametrize("origin", ["http://localhost:8080", "HTTP://LocalHost:8080"])
async def test_pages_of_this_server_are_admitted(authenticator: Authenticator, origin: str) -> None:
    assert (
        await _admitted(authenticator, _head(host="localhost:8080", origin=origin, sec_fetch_site="same-origin"))
        is LOCAL
    )


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8080",
        "null",
        "",
        "localhost:8080",
        "http://localhost:8080@evil.example",
        "http://localhost:8080.evil.example",
        "http://[::1",
        "file://",
    ],
)
@pytest.mark.parametrize("is_local", [True, False])
async def test_pages_of_another_origin_are_refused(table: TokenTable, origin: str, is_local: bool) -> None:
    authenticator = Authenticator(table, is_open=True, is_local=is_local)
    with pytest.raises(Forbidden, match="another origin"):
        await _admitted(authenticator, _head(host="localhost:8080", origin=origin))


@pytest.mark.parametrize(
    ("site", "is_let_in"), [("none", True), ("same-origin", True), ("same-site", False), ("cross-site", False)]
)
async def test_browsers_say_where_a_request_comes_from(
    authenticator: Authenticator, site: str, is_let_in: bool
) -> None:
    """Check Sec-Fetch-Site, which browsers send also without Origin, for example for images."""
    head = _head(host="localhost", sec_fetch_site=site)
    if is_let_in:
        assert await _admitted(authenticator, head) is LOCAL
    else:
        with pytest.raises(Forbidden, match="another site"):
            await _admitted(authenticator, head)


async def test_an_open_server_admits_any_host_name(table: TokenTable) -> None:
    authenticator = Authenticator(table, is_open=True, is_local=False)
    assert await _admitted(authenticator, _head(host="queue.example")) is LOCAL


async def test_a_closed_server_needs_a_token_even_if_none_exists(table: TokenTable) -> None:
    authenticator = Authenticator(table, is_open=False, is_local=False)
    with pytest.raises(Unauthorized):
        await _admitted(authenticator, _head(host="localhost"))


async def test_public_routes_need_no_token(authenticator: Authenticator, service: Service) -> None:
    await service.create_token(NewToken(name="one", roles=frozenset({Role.READ})))
    head = _head(host="evil.example", origin="null", authorization="Bearer nonsense")
    assert authenticator.admit_cached(head, None) is ANONYMOUS


async def test_once_a_token_exists_requests_need_one(authenticator: Authenticator, service: Service) -> None:
    made = await service.create_token(NewToken(name="one", roles=frozenset({Role.PRODUCE}), queues=("mail*",)))
    for headers in ({}, {"authorization": "Bearer"}, {"authorization": f"Basic {made.text}"}, {"authorization": "x"}):
        with pytest.raises(Unauthorized, match="Authorization: Bearer"):
            await _admitted(authenticator, _head(host="localhost", **headers))
    for text in ("nonsense", made.text[:-1], made.text + "x", made.text[:-1] + "_", f"wl_{'a' * 12}_{'b' * 43}"):
        with pytest.raises(Unauthorized, match="unknown, revoked or expired"):
            await _admitted(authenticator, _head(authorization=f"Bearer {text}"))
    for kind in ("Bearer", "bearer", "BEARER "):
        # A token is valid under any host name and from any page.
        head = _head(host="queue.example", origin="https://shop.example", authorization=f"{kind} {made.text}")
        assert await _admitted(authenticator, head) == Principal("one", frozenset({Role.PRODUCE}), ("mail*",))
    assert authenticator.admit_cached(head, PRODUCERS) is not None


async def test_a_role_that_is_missing_is_named(authenticator: Authenticator, service: Service) -> None:
    reader = await service.create_token(NewToken(name="reader", roles=frozenset({Role.READ})))
    admin = await service.create_token(NewToken(name="boss", roles=frozenset({Role.ADMIN})))
    with pytest.raises(Forbidden, match="produce"):
        await _admitted(authenticator, _head(authorization=f"Bearer {reader.text}"))
    for roles in (READERS, PRODUCERS, ADMINS):
        assert (await _admitted(authenticator, _head(authorization=f"Bearer {admin.text}"), roles)).name == "boss"


async def test_the_token_in_the_settings_is_an_admin(service: Service) -> None:
    table = TokenTable(service, STATIC)
    authenticator = Authenticator(table, is_open=True, is_local=True)
    assert authenticator.admit_cached(_head(authorization=f"Bearer {STATIC}"), ADMINS) in (
        None,
        Principal("static", ADMINS),
    )
    assert (await _admitted(authenticator, _head(authorization=f"Bearer {STATIC}"), ADMINS)).roles == ADMINS
    with pytest.raises(Unauthorized):
        await _admitted(authenticator, _head(host="localhost"))
    await table.close()
    await service.store.close()


async def test_a_token_is_limited_to_its_rate(authenticator: Authenticator, service: Service) -> None:
    made = await service.create_token(NewToken(name="slow", roles=frozenset({Role.PRODUCE}), rate=1))
    head = _head(authorization=f"Bearer {made.text}")
    assert (await authenticator.admit(head, PRODUCERS)).name == "slow"
    for _ in range(3):
        with pytest.raises(TooManyRequests, match=r"'slow' may send 1 requests a second; wait \d"):
            await authenticator.admit(head, PRODUCERS)


async def test_unknown_clients_may_send_only_small_bodies(
    authenticator: Authenticator, service: Service, table: TokenTable
) -> None:
    made = await service.create_token(NewToken(name="one", roles=frozenset({Role.PRODUCE})))
    await table.refresh()
    assert authenticator.is_probably_admitted(_head(authorization=f"Bearer {made.text}"))
    assert not authenticator.is_probably_admitted(_head(authorization="Bearer nonsense"))
    assert not authenticator.is_probably_admitted(_head(host="localhost"))
