"""Tests of the token table: at most a second old, and few calls for any number of requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.namespace import send_command
from windlass.core.access.tokens import NewToken, Principal, Role, format_token, generate_secret, parse_token
from windlass.service import Service
from windlass.store.store import Store
from windlass.web.app import token_table
from windlass.web.app.token_table import TokenTable

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
READS = frozenset({Role.READ})


class Clock:
    """Clock that tests can move, or stop so that a slow machine makes no difference."""

    offset_s = 0.0
    stopped_at_s: float | None = None

    def __call__(self) -> float:
        return (self.stopped_at_s or time.monotonic()) + self.offset_s

    def stop(self) -> None:
        self.stopped_at_s = time.monotonic()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def table(service: Service, store: Store, clock: Clock) -> AsyncIterator[TokenTable]:
    made = TokenTable(service, clock=clock)
    yield made
    await made.close()
    await store.close()


async def create(service: Service, name: str = "shop", **fields: Any) -> str:
    made = await service.create_token(NewToken(**({"name": name, "roles": READS} | fields)))
    return made.text


def unknown_token(number: int) -> str:
    return format_token(generate_secret(number.to_bytes(9, "big"), bytes(32)))


def library_calls(store: Store) -> int:
    """Return the number of calls of library functions so far, by all clients."""
    found = send_command(store, "INFO", "commandstats").decode()
    lines = [line for line in found.splitlines() if line.startswith("cmdstat_fcall:")]
    return int(lines[0].split("calls=")[1].split(",")[0]) if lines else 0


async def test_a_token_has_its_principal(service: Service, table: TokenTable) -> None:
    fields = {"roles": frozenset({Role.PRODUCE}), "queues": ("mail-*",), "rate": 5}
    text = await create(service, **fields)
    assert await table.principal(text) == Principal("shop", frozenset({Role.PRODUCE}), ("mail-*",), 5)


async def test_an_unknown_token_has_no_principal(service: Service, table: TokenTable) -> None:
    text = await create(service)
    other = parse_token(await create(service, "other"))
    for wrong in ("", "x", "Bearer " + text, text[:-1], text + "A", unknown_token(1)):
        assert await table.principal(wrong) is None
    assert await table.principal(format_token(parse_token(text)._replace(secret=other.secret))) is None
    assert await table.principal(text) is not None


async def test_text_that_is_no_token_costs_no_call(store: Store, table: TokenTable) -> None:
    await store.open()
    before = library_calls(store)
    for wrong in ("", "x", "wl_short_short"):
        assert await table.principal(wrong) is None
    assert library_calls(store) == before


async def test_a_new_token_is_known_at_once(service: Service, table: TokenTable) -> None:
    for name in ("a", "b", "c"):
        assert await table.principal(await create(service, name)) is not None


async def test_a_revoked_token_is_refused_a_second_later(service: Service, table: TokenTable, clock: Clock) -> None:
    text = await create(service)
    assert await table.principal(text) is not None
    await service.revoke_token("shop")
    clock.offset_s += token_table.STALE_AFTER_S
    assert await table.principal(text) is None


async def test_a_busy_server_refreshes_in_the_background(service: Service, table: TokenTable, clock: Clock) -> None:
    clock.stop()
    text = await create(service)
    assert await table.principal(text) is not None
    await service.revoke_token("shop")
    clock.offset_s += token_table.REFRESH_AFTER_S
    assert await table.principal(text) is not None  # the refresh is not awaited
    assert table._reading is not None
    await asyncio.wait({table._reading})
    assert await table.principal(text) is None


async def test_a_fresh_table_costs_no_call(service: Service, store: Store, table: TokenTable, clock: Clock) -> None:
    clock.stop()
    text = await create(service)
    assert await table.principal(text) is not None
    before = library_calls(store)
    for _ in range(100):
        assert await table.principal(text) is not None
        await asyncio.sleep(0)
    await table.close()
    assert library_calls(store) == before


async def test_a_flood_of_unknown_tokens_is_a_few_calls(service: Service, store: Store, table: TokenTable) -> None:
    text = await create(service)
    assert await table.principal(text) is not None
    before, waves = library_calls(store), 3
    for wave in range(waves):
        found = await asyncio.gather(*(table.principal(unknown_token(wave * 500 + number)) for number in range(500)))
        assert found == [None] * 500
    assert library_calls(store) - before <= 2 * waves
    assert await table.principal(text) is not None


async def test_reads_for_unknown_tokens_have_a_pause_between_them(
    store: Store, table: TokenTable, clock: Clock
) -> None:
    clock.stop()
    assert await table.principal(unknown_token(1)) is None
    before = library_calls(store)
    clock.offset_s += token_table.UNKNOWN_ID_PAUSE_S / 2
    waiting = asyncio.create_task(table.principal(unknown_token(2)))
    for _ in range(20):
        assert await asyncio.to_thread(library_calls, store) == before
    clock.offset_s += token_table.UNKNOWN_ID_PAUSE_S
    assert await waiting is None
    assert library_calls(store) == before + 1


async def test_an_expired_token_is_refused_without_asking(
    service: Service, store: Store, table: TokenTable, clock: Clock
) -> None:
    clock.stop()
    text = await create(service, expires_in_ms=300_000)
    assert await table.principal(text) is not None
    # A second more: the engine's clock went on while the token was created. The table stays fresh.
    table._tried_at_s += 301
    clock.offset_s += 301
    before = library_calls(store)
    assert await table.principal(text) is None
    assert library_calls(store) == before


async def test_expiry_goes_by_the_time_of_the_engine(
    service: Service, store: Store, table: TokenTable, clock: Clock
) -> None:
    text = await create(service, expires_in_ms=300_000)
    clock.offset_s += 400
    assert await table.principal(text) is not None
    store.clock_offset_ms += 300_000
    clock.offset_s += token_table.STALE_AFTER_S
    assert await table.principal(text) is None


async def test_whether_there_are_tokens(service: Service, table: TokenTable, clock: Clock) -> None:
    assert table.has_tokens  # never read
    await table.refresh()
    assert not table.has_tokens
    await create(service)
    clock.offset_s += token_table.STALE_AFTER_S
    await table.refresh()
    assert table.has_tokens
    await service.revoke_token("shop")
    clock.offset_s += token_table.STALE_AFTER_S
    await table.refresh()
    assert not table.has_tokens
