"""Settings: where each value comes from, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.acl_user import create_restricted_user, send_command
from tests.support.console import run_with_settings
from tests.support.engine_process import EngineProcess
from windlass.cli.main import windlass
from windlass.core.errors import BadSetting
from windlass.settings import load
from windlass.store.embedded.engine import EmbeddedEngine


def test_precedence_of_options_environment_file_and_defaults(tmp_path: Path) -> None:
    (tmp_path / "windlass.toml").write_text('url = "redis://file"\ndata_dir = "/file"\nnamespace = "file"\n')
    environment = {"WINDLASS_URL": "redis://env", "WINDLASS_DATA_DIR": "/env"}
    settings, origins = load({"url": "redis://option", "data_dir": None}, environment, tmp_path)
    assert (settings.url, settings.data_dir, settings.namespace) == ("redis://option", "/env", "file")
    sources = {origin.name: origin.source for origin in origins}
    assert {name: source for name, source in sources.items() if source != "default"} == {
        "url": "option",
        "data_dir": "WINDLASS_DATA_DIR",
        "namespace": "windlass.toml",
    }
    assert {"partitions", "durability", "allow_eviction", "patience", "log_format", "host", "port"} <= set(sources)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WINDLASS_ALLOW_EVICTION": "perhaps"}, "is not a boolean"),
        ({"WINDLASS_DURABILITY": "hope"}, "durability"),
        ({"WINDLASS_PATIENCE": "soon"}, "patience"),
        ({"WINDLASS_PATIENCE": "-1s"}, "not a duration"),
        ({"WINDLASS_PARTITIONS": "many"}, "partitions"),
        ({"WINDLASS_PARTITIONS": "-1"}, "not a whole number"),
        ({"WINDLASS_PARTITIONS": "4097"}, "partitions"),
        ({"WINDLASS_LOG_FORMAT": "xml"}, "log_format"),
        ({"WINDLASS_PORT": "http"}, "port.*not a whole number"),
        ({"WINDLASS_PORT": "65536"}, "port"),
        ({"WINDLASS_BEDROCK_PORT": "none"}, "bedrock_port.*not a whole number"),
        ({"WINDLASS_WORKERS": "0"}, "workers"),
        ({"WINDLASS_GRACE": "long"}, "grace"),
        ({"WINDLASS_ALLOW_ANONYMOUS": "maybe"}, "is not a boolean"),
        ({"WINDLASS_BODY_MAX": "1"}, "body_max"),
        ({"WINDLASS_TOKEN": "short"}, "at least 16 characters"),
        ({"WINDLASS_TOKEN": "sixteen or more but blanks"}, "visible ASCII"),
    ],
)
def test_a_wrong_value_names_its_setting(environment: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=words):
        load({}, environment, tmp_path)


@pytest.mark.parametrize("content", ["nonsense = 1", "url = ", "url = 7", "\x00"])
def test_an_invalid_file_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "windlass.toml").write_text(content)
    with pytest.raises(BadSetting, match=r"windlass\.toml"):
        load({}, {}, tmp_path)


@pytest.mark.parametrize(("text", "value"), [("1", True), ("YES", True), ("off", False), ("", False)])
def test_booleans(text: str, value: bool, tmp_path: Path) -> None:
    assert load({}, {"WINDLASS_ALLOW_EVICTION": text}, tmp_path)[0].allow_eviction is value


def test_config_hides_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", "redis+sentinel://me:secret@host/m?sentinel_password=secret&db=0")
    for arguments in (["config"], ["config", "--json"]):
        shown = CliRunner().invoke(windlass, arguments)
        assert shown.exit_code == 0
        assert "secret" not in shown.output
        assert "WINDLASS_URL" in shown.output
    assert json.loads(shown.output)["namespace"] == {"value": "wl", "from": "default"}


def test_config_hides_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(CliRunner().invoke(windlass, ["config", "--json"]).output)["token"]["value"] == ""
    monkeypatch.setenv("WINDLASS_TOKEN", "correct-horse-battery")
    monkeypatch.setenv("WINDLASS_GRACE", "90s")
    shown = CliRunner().invoke(windlass, ["config", "--json"])
    assert "horse" not in shown.output
    found = json.loads(shown.output)
    assert found["token"] == {"value": "set", "from": "WINDLASS_TOKEN"}
    assert found["grace"]["value"] == "90s"
    assert "horse" not in CliRunner().invoke(windlass, ["config"]).output


def test_config_hides_secrets_of_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_CALLBACK_KEYS", "correct-horse-battery")
    monkeypatch.setenv("WINDLASS_CALLBACK_KAFKA", "bootstrap.servers=h:9092; sasl.password=horse")
    monkeypatch.setenv("WINDLASS_CALLBACK_RETRY_DELAY", "200ms")
    shown = CliRunner().invoke(windlass, ["config", "--json"])
    assert "horse" not in shown.output
    found = json.loads(shown.output)
    assert found["callback_keys"]["value"] == found["callback_kafka"]["value"] == "set"
    assert found["callback_retry_delay"]["value"] == "200ms"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CALLBACK_KEYS", "too-short"),
        ("CALLBACK_KEYS", ",".join(["k" * 16] * 3)),
        ("CALLBACK_KAFKA", "bootstrap.servers"),
        ("CALLBACK_ATTEMPTS", "0"),
        ("CALLBACK_HOST_CONCURRENCY", "0"),
        ("CALLBACK_CONCURRENCY", "-1"),
        ("CALLBACK_RETRY_DELAY", "soon"),
    ],
)
def test_wrong_settings_of_callbacks(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=name.lower()):
        load({}, {f"WINDLASS_{name}": text}, tmp_path)


# Durability in force


@pytest.fixture(scope="module", params=["valkey", "redis"])
def own_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param) as engine:
        yield engine


def in_force(url: str, **settings: str) -> str:
    shown = run_with_settings("config", "--json", settings={"WINDLASS_URL": url, **settings})
    assert shown.code == 0
    found = shown.document["durability_in_force"]
    assert found["from"] == "engine"
    assert (
        f"durability_in_force        {found['value']}  [engine]"
        in run_with_settings("config", settings={"WINDLASS_URL": url, **settings}).out
    )
    return str(found["value"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"appendonly": "no", "save": ""}, "Memory only"),
        ({"appendonly": "no", "save": "60 100"}, "Snapshots only (save 60 100)."),
        ({"appendonly": "yes", "appendfsync": "no"}, "flushed when the system decides (appendfsync no)"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, "flushed once a second (appendfsync everysec)"),
        ({"appendonly": "yes", "appendfsync": "always"}, "flushed before every answer (appendfsync always)"),
    ],
)
def test_reads_the_durability_from_the_engine(own_engine: EngineProcess, settings: dict[str, str], words: str) -> None:
    for name, value in settings.items():
        send_command(own_engine, "CONFIG", "SET", name, value)
    assert words in in_force(own_engine.unix_url, WINDLASS_DURABILITY="memory")
    assert "none is connected" in in_force(own_engine.unix_url, WINDLASS_DURABILITY="replica")
    assert send_command(own_engine, "DBSIZE") == 0, "a namespace was created"


def test_a_service_that_makes_writes_durable_by_itself(own_engine: EngineProcess) -> None:
    for name, value in (("appendonly", "no"), ("save", "")):
        send_command(own_engine, "CONFIG", "SET", name, value)
    managed = {"WINDLASS_ENGINE_DURABILITY": "managed"}
    assert in_force(own_engine.unix_url, **managed).startswith("Managed: the service makes each write durable")
    assert "replica needs no confirmation" in in_force(own_engine.unix_url, WINDLASS_DURABILITY="replica", **managed)
    assert in_force(own_engine.unix_url, WINDLASS_ENGINE_DURABILITY="auto").startswith("Memory only")


def test_a_wrong_engine_durability_is_explained(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="'always' is not known; write `auto`"):
        load({}, {"WINDLASS_ENGINE_DURABILITY": "always"}, tmp_path)
    (tmp_path / "windlass.toml").write_text("engine_durability = 7")
    with pytest.raises(BadSetting, match="engine_durability"):
        load({}, {}, tmp_path)


def test_explains_an_unknown_durability(own_engine: EngineProcess) -> None:
    send_command(own_engine, "CONFIG", "SET", "appendonly", "yes")
    durability = in_force(create_restricted_user(own_engine, "-config|get"))
    assert "unknown: the engine's user may not call CONFIG GET" in durability
    assert in_force(create_restricted_user(own_engine, "-info", "-config")).startswith(
        "Unknown: the engine's user may not call INFO"
    )


def test_the_durability_of_a_missing_engine_and_of_a_server_is_unknown(tmp_path: Path) -> None:
    assert "Unknown: Cannot connect to unix://" in in_force(f"unix://{tmp_path}/none.sock")
    assert "Unknown: the URL names a server" in in_force("http://127.0.0.1:1")


def test_does_not_start_the_embedded_engine(tmp_path: Path) -> None:
    with_data = {"WINDLASS_DATA_DIR": str(tmp_path / "d")}
    assert "the embedded engine is not running" in in_force("", **with_data)
    assert not (tmp_path / "d").exists()
    with EmbeddedEngine(tmp_path / "d"):
        assert "flushed before every answer (appendfsync always)" in in_force("", **with_data)
        managed = in_force("", WINDLASS_ENGINE_DURABILITY="managed", **with_data)
        assert "flushed before every answer" in managed, "the embedded engine shows its settings"
