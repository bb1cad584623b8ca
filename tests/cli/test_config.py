"""Settings: where each value comes from, and how it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.acl_user import create_restricted_user, send_command
from tests.support.console import run_with_settings
from tests.support.engine_process import EngineProcess
from windlass.cli.main import windlass
from windlass.core.errors import BadSetting
from windlass.settings import load, unknown_variables
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
        ({"WINDLASS_ALLOW_EVICTION": "perhaps"}, "WINDLASS_ALLOW_EVICTION must be yes or no .*, not 'perhaps'"),
        ({"WINDLASS_DURABILITY": "strong"}, "^WINDLASS_DURABILITY must be memory, fsync or replica, not 'strong'.$"),
        ({"WINDLASS_ENGINE_DURABILITY": "x"}, "WINDLASS_ENGINE_DURABILITY must be auto, .*, or managed, .*, not 'x'"),
        ({"WINDLASS_PATIENCE": "soon"}, "WINDLASS_PATIENCE must be a duration such as .*, not 'soon'"),
        ({"WINDLASS_PATIENCE": "-1s"}, "WINDLASS_PATIENCE must be a duration such as .*, not '-1s'"),
        ({"WINDLASS_PARTITIONS": "many"}, "^WINDLASS_PARTITIONS must be a whole number from 0 to 4096, not 'many'.$"),
        ({"WINDLASS_PARTITIONS": "-1"}, "WINDLASS_PARTITIONS must be a whole number from 0 to 4096, not '-1'"),
        ({"WINDLASS_PARTITIONS": "4097"}, "WINDLASS_PARTITIONS must be a whole number from 0 to 4096, not '4097'"),
        ({"WINDLASS_LOG_FORMAT": "xml"}, "WINDLASS_LOG_FORMAT must be json or text, not 'xml'"),
        ({"WINDLASS_PORT": "http"}, "WINDLASS_PORT must be a whole number from 0 to 65535, not 'http'"),
        ({"WINDLASS_PORT": "65536"}, "WINDLASS_PORT must be"),
        ({"WINDLASS_BEDROCK_PORT": "none"}, "WINDLASS_BEDROCK_PORT must be a whole number from 0 to 65535 or off"),
        (
            {"WINDLASS_ENGINE_MEMORY_MAX": "1GB"},
            "WINDLASS_ENGINE_MEMORY_MAX must be a whole number of at least 0 or off",
        ),
        ({"WINDLASS_WORKERS": "0"}, "^WINDLASS_WORKERS must be a whole number from 1 to 256, not '0'.$"),
        ({"WINDLASS_GRACE": "long"}, "WINDLASS_GRACE must be a duration"),
        ({"WINDLASS_ALLOW_ANONYMOUS": "maybe"}, "WINDLASS_ALLOW_ANONYMOUS must be yes or no"),
        ({"WINDLASS_BODY_MAX": "1"}, "WINDLASS_BODY_MAX must be a whole number from 1024 to 1073741824, not '1'"),
        ({"WINDLASS_ROLES": "king"}, "WINDLASS_ROLES is invalid: 'king' is not a server role"),
        ({"WINDLASS_TOKEN": "short"}, "WINDLASS_TOKEN is invalid: it must have at least 16 characters"),
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
    with pytest.raises(BadSetting, match=f"^WINDLASS_{name} (?:must be|is invalid)"):
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
    with pytest.raises(BadSetting, match=r"must be auto, .* or managed, .*, not 'always'"):
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


def test_the_durability_of_a_missing_engine_or_server_is_unknown(tmp_path: Path) -> None:
    assert "Unknown: Cannot connect to unix://" in in_force(f"unix://{tmp_path}/none.sock")
    assert "Unknown: Cannot reach the server" in in_force("http://127.0.0.1:1")


def test_does_not_start_the_embedded_engine(tmp_path: Path) -> None:
    with_data = {"WINDLASS_DATA_DIR": str(tmp_path / "d")}
    assert "the embedded engine is not running" in in_force("", **with_data)
    assert not (tmp_path / "d").exists()
    with EmbeddedEngine(tmp_path / "d"):
        assert "flushed before every answer (appendfsync always)" in in_force("", **with_data)
        managed = in_force("", WINDLASS_ENGINE_DURABILITY="managed", **with_data)
        assert "flushed before every answer" in managed, "the embedded engine shows its settings"


# The source of a wrong value, and names that are no settings


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("workers = 0", "workers in windlass.toml must be a whole number from 1 to 256, not 0."),
        ("patience = 30", "patience in windlass.toml must be a duration such as 200ms, 30s or 10m, not 30."),
        ("host = 5", "host in windlass.toml must be text, not 5."),
        ("durabilty = 'fsync'", "windlass.toml contains the unknown setting 'durabilty'; did you mean 'durability'?"),
    ],
)
def test_a_wrong_line_of_the_file_is_named_as_it_is_written(tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "windlass.toml").write_text(line)
    with pytest.raises(BadSetting) as caught:
        load({}, {}, tmp_path)
    assert str(caught.value).startswith(sentence)


def test_a_wrong_option_is_named_as_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"^--data-dir must be text, not 5\.$"):
        load({"data_dir": 5}, {}, tmp_path, option_form="--{}")


def test_a_variable_that_is_no_setting_warns_once_on_stderr(tmp_path: Path) -> None:
    environment = {"WINDLASS_DURABILTY": "fsync", "WINDLASS_DATA_DIR": str(tmp_path), "WINDLASS_DEEP": "1"}
    done = run_with_settings("completion", "bash", settings=environment)
    assert done.code == 0
    assert done.err == "windlass: WINDLASS_DURABILTY is not a setting; did you mean WINDLASS_DURABILITY?\n"


def test_variables_of_the_project_and_of_clusters_are_known() -> None:
    root = Path(__file__).parents[2]
    files = [
        file for folder in ("src", "bench", "faults", "tools", "deploy", "docs") for file in (root / folder).rglob("*")
    ]
    text = "".join(file.read_text(errors="replace") for file in files if file.suffix in (".py", ".yaml", ".sh", ".md"))
    variables = set(re.findall(r"\bWINDLASS_[A-Z0-9_]*[A-Z0-9]\b", text + (root / "tests" / "conftest.py").read_text()))
    assert len(variables) > 50
    written_in_part = {"WINDLASS_DOWNLOAD", "WINDLASS_CALLBACK"}  # WINDLASS_DOWNLOAD_…
    assert unknown_variables(dict.fromkeys(variables - written_in_part, "")) == []
    assert unknown_variables({"WINDLASS_SERVICE_PORT_HTTP": "1", "WINDLASS_PORT_8080_TCP_ADDR": "1"}) == []
    assert unknown_variables({"WINDLASS_XYZZY": "1"}) == [
        "WINDLASS_XYZZY is not a setting. `windlass config` shows the settings."
    ]
