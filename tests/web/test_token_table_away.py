"""Tests of the token table without an engine: the last known tokens stay valid; before the first read no token is."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.core.access.tokens import NewToken, Role, format_token, generate_secret
from windlass.core.errors import EngineUnavailable
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.web.app import token_table
from windlass.web.app.token_table import TokenTable

pytestmark = pytest.mark.anyio
STRANGER = format_token(generate_secret(bytes(9), bytes(32)))


async def test_the_static_token_is_an_admin_and_needs_no_engine() -> None:
    store = Store(parse_url("redis://127.0.0.1:1/0"), patience_s=0.05)
    table = TokenTable(Service(store), "any text at all")
    found = await table.principal("any text at all")
    assert found is not None
    assert found.may(frozenset({Role.WORK}))
    assert await table.principal("any text") is None
    await table.refresh()
    assert table.has_tokens
    await table.close()
    await store.close()


async def test_without_an_engine_from_the_start_no_request_is_admitted(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(parse_url("redis://127.0.0.1:1/0"), patience_s=0.05)
    table = TokenTable(Service(store))
    for _ in range(2):
        with pytest.raises(EngineUnavailable, match="try again"):
            await table.principal(STRANGER)
    with pytest.raises(EngineUnavailable, match="try again"):
        await table.refresh()
    assert table.has_tokens
    assert len([record for record in caplog.records if "Could not read the tokens" in record.getMessage()]) == 1
    await table.close()
    await store.close()


async def test_while_the_engine_is_unavailable_the_last_known_tokens_are_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offset_s = [0.0]
    with EngineProcess("valkey", config=("--appendonly", "no")) as own:
        store = make_store(own)
        service = Service(store)
        table = TokenTable(service, clock=lambda: time.monotonic() + offset_s[0])
        text = (await service.create_token(NewToken(name="shop", roles=frozenset({Role.READ})))).text
        assert await table.principal(text) is not None
        monkeypatch.setattr(token_table, "WAIT_LIMIT_S", 0.05)
        own.freeze()
        offset_s[0] += 60
        assert await table.principal(text) is not None
        monkeypatch.setattr(token_table, "WAIT_LIMIT_S", 60)
        offset_s[0] += 60
        async with asyncio.timeout(30):  # an engine that was silent for so long is not waited for
            assert await table.principal(STRANGER) is None
            assert await table.principal(text) is not None
        own.thaw()
        await service.revoke_token("shop")
        offset_s[0] += token_table.STALE_AFTER_S
        if table._reading is not None:
            await asyncio.wait({table._reading})  # the read from the frozen engine
        offset_s[0] += token_table.STALE_AFTER_S
        assert await table.principal(text) is None
        await table.close()
        await store.close()
