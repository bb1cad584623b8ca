"""windlass backup on engines that refuse it, or that are not there."""

from __future__ import annotations

from pathlib import Path

from tests.service.helpers import new, put
from tests.support.acl_user import create_restricted_user, send_command
from tests.support.console import CliResult, run_with_settings
from tests.support.engine_process import EngineProcess
from tests.support.threaded_server import threaded_server
from windlass.core.access.tokens import NewToken, Role
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store


def test_a_user_without_sync_may_read_the_running_engine(tmp_path: Path) -> None:
    with EngineProcess("valkey") as engine:
        service = Service(Store(parse_url(engine.unix_url), patience_s=10.0))
        put(service, new(), new(delay_ms=3_600_000))
        url = create_restricted_user(engine)
        send_command(engine, "ACL", "SETUSER", "worker", "+function|load")
        file = str(tmp_path / "b.gz")

        def backup(*arguments: str) -> CliResult:
            return run_with_settings("backup", file, *arguments, settings={"WINDLASS_URL": url})

        refused = backup()
        assert refused.code == 1
        assert "+sync" in refused.err
        assert list(tmp_path.iterdir()) == []
        live = backup("--live")
        assert live.code == 0, live
        assert live.out.startswith("Point      none: read while jobs ran, from ")
        assert run_with_settings("backup", "verify", file, settings={}).code == 0
        service.store.close_sync()


def test_no_engine_is_worth_another_try() -> None:
    done = run_with_settings("backup", "-", settings={"WINDLASS_URL": "redis://127.0.0.1:1"})
    assert done.code == 75


def test_a_server_gives_no_backup_of_one_instant() -> None:
    with EngineProcess("valkey") as engine:
        service = Service(Store(parse_url(engine.unix_url), patience_s=10.0))
        token = service.create_token(NewToken(name="a", roles=frozenset({Role.ADMIN}))).wait()
        with threaded_server(service.store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as url:
            done = run_with_settings("backup", "-", settings={"WINDLASS_URL": url, "WINDLASS_TOKEN": token.text})
        assert done.code == 2
        assert "needs the engine itself" in done.err
        service.store.close_sync()
