"""Declared alert rules: tables in windlass.toml or in a file of their own, stored when a server starts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from windlass.core.alerts.rule import AlertRule
from windlass.core.errors import BadSetting
from windlass.server import open_server
from windlass.server.alerts import read_declared
from windlass.service import Service
from windlass.settings import Settings, load
from windlass.store.store import Store

TABLES = """
[{prefix}mail-failures]
kind = "failures"
queue = "mail-*"
threshold = 2.5
for = "2m"
cool_down = "1h"
to = ["mailto:ops@example.com", "slack:https://hooks.slack.com/services/x"]
note = "See the wiki."

[{prefix}stuck]
kind = "oldest_age"
threshold = "10m"
to = "https://hooks.example.com"
enabled = false
"""
RULES = [
    AlertRule(
        name="mail-failures", kind="failures", pattern="mail-*", threshold=2.5, for_ms=120_000, cool_down_ms=3_600_000,
        targets=("mailto:ops@example.com", "slack:https://hooks.slack.com/services/x"), note="See the wiki.",
    ),
    AlertRule(
        name="stuck", kind="oldest_age", threshold=600_000, targets=("https://hooks.example.com",), is_enabled=False
    ),
]  # fmt: skip


def test_tables_of_both_files(tmp_path: Path) -> None:
    (tmp_path / "windlass.toml").write_text(TABLES.format(prefix="alerts."))
    settings, _ = load({}, {}, tmp_path)
    assert read_declared(settings) == RULES
    (tmp_path / "own.toml").write_text(TABLES.format(prefix=""))
    settings, _ = load({}, {"WINDLASS_ALERTS": str(tmp_path / "own.toml")}, tmp_path)
    assert read_declared(settings) == RULES
    assert read_declared(Settings()) is None


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ('kind = "other"', "kind"), ('kind = "failures"\nqueues = "q"', "queues"), ("x = 1", "fields"),
        ('kind = "failures"\nthreshold = "many"', "threshold"), ('kind = "failures"\nto = "ops"', "target"),
        ('kind = "oldest_age"\nthreshold = "many"', "duration"), ('kind = "failures"\nto = 7', "to must be"),
        ('kind = "failures"\nqueue = 7', "pattern"), ('kind = "failures"\nenabled = 1', "is_enabled"),
        ('kind = "failures"\nfor = [1]', "for must be"), ('kind = "failures"\nnote = 7', "note"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_named(tmp_path: Path, table: str, named: str) -> None:
    (tmp_path / "windlass.toml").write_text(f"[alerts.mine]\n{table}\n")
    with pytest.raises(BadSetting, match=named) as error:
        load({}, {}, tmp_path)
    assert "mine" in str(error.value)
    (tmp_path / "own.toml").write_text(f"[mine]\n{table}\n")
    with pytest.raises(BadSetting, match=named):
        read_declared(Settings(alerts=str(tmp_path / "own.toml")))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for content in ("x = 1", "[a", "\n".join(f'[r{number}]\nkind = "no_worker"' for number in range(201))):
        (tmp_path / "own.toml").write_text(content)
        with pytest.raises(BadSetting):
            read_declared(Settings(alerts=str(tmp_path / "own.toml")))
    with pytest.raises(BadSetting, match="missing"):
        read_declared(Settings(alerts=str(tmp_path / "missing.toml")))


@pytest.mark.parametrize(
    ("variable", "value"), [("SMTP_URL", "mail.example.com"), ("MAIL_FROM", "Windlass <a@b.c>"), ("MAIL_FROM", "x")]
)
def test_wrong_mail_settings(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"WINDLASS_{variable}"):
        load({}, {f"WINDLASS_{variable}": value}, tmp_path)


@pytest.mark.anyio
@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
async def test_a_server_stores_and_removes_declared_rules(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(30):
        await service.set_alert(AlertRule(name="by hand", kind="no_worker"))
        for tables, expected in (
            ({"one": {"kind": "no_worker"}, "two": {"kind": "no_worker"}}, {"by hand", "one", "two"}),
            ({"two": {"kind": "failures"}}, {"by hand", "two"}),
            ({}, {"by hand"}),
        ):
            settings = Settings(port=0, bedrock_port=None, roles="api,notifier", alerts=tables)
            async with open_server(store.clone(), settings):
                while {one.rule.name for one in (await service.alerts()).rules} != expected:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
