"""Windlass on Windows and musl, and as a client's installation: the missing modules are hidden in a real process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation.bare_python import CLIENT, WINDOWS, run_bare, run_command
from tests.support.engine_process import EngineProcess

SHOP = """
from windlass import Windlass

app = Windlass()

@app.task
async def double(number: int) -> int:
    return 2 * number

@app.task(pool="thread")
def triple(number: int) -> int:
    return 3 * number
"""
ENQUEUE = """
sys.path.insert(0, ".")
from shop import double, triple
print(double.enqueue(21).id, triple.enqueue(14).id)
"""
RESULTS = """
sys.path.insert(0, ".")
from shop import app
print(*(app.job(id).result(timeout=30) for id in sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def engine_over_tcp() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", tcp=True) as process:
        yield process


@pytest.mark.parametrize(("namespace", "hide"), [("windows", WINDOWS), ("client", CLIENT)])
def test_a_worker_runs_jobs_of_a_program(
    namespace: str, hide: str, engine_over_tcp: EngineProcess, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    settings = {"WINDLASS_URL": engine_over_tcp.url, "WINDLASS_NAMESPACE": namespace}
    ids = run_bare(hide, ENQUEUE, cwd=tmp_path, **settings)
    assert ids.returncode == 0, ids.stderr
    worked = run_command(hide, "worker", "shop:app", "--burst", cwd=tmp_path, **settings)
    assert worked.returncode == 0, worked.stderr
    assert "Stopped after 2 jobs." in worked.stdout
    results = run_bare(hide, RESULTS, *ids.stdout.split(), cwd=tmp_path, **settings)
    assert results.stdout == "42 42\n", results.stderr


def test_every_module_can_be_imported_on_windows() -> None:
    done = run_bare(WINDOWS, "print(bare_system.import_all('windlass.contrib', 'windlass.sdk.contrib'))")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 700


def test_a_client_needs_no_package_of_the_server() -> None:
    """Only the packages that make up the server may need them."""
    server = ["windlass.contrib", "windlass.sdk.contrib", "windlass.server", "windlass.web", "windlass.dialects"]
    done = run_bare(CLIENT, f"print(bare_system.import_all(*{[*server, 'windlass.dashboard']!r}))")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400


@pytest.mark.parametrize(
    ("hide", "arguments", "answer"),
    [
        (CLIENT, ["serve"], "windlass serve needs the server's packages: pip install windlass-queue"),
        (WINDOWS, ["serve"], "windlass serve needs Linux or macOS"),
        (WINDOWS, ["queues", "ls"], "the embedded engine needs Linux or macOS: set WINDLASS_URL"),
        (WINDOWS, ["queues", "ls", "--url", "unix:///run/engine.sock"], "this system has no unix sockets"),
        (WINDOWS, ["worker", "shop:app", "--processes", "2"], "--autoscale and --reload need Linux or macOS"),
        (WINDOWS, ["worker", "heavy:app", "--url", "redis://127.0.0.1:1"], 'pool="process" needs Linux or macOS'),
    ],
)  # fmt: skip
def test_the_error_says_what_to_do(hide: str, arguments: list[str], answer: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "heavy.py").write_text(SHOP.replace('"thread"', '"process"'))
    done = run_command(hide, *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("windlass: ")
    assert answer in done.stderr


@pytest.mark.parametrize("name", ["windlass.asgi", "windlass.engine_api.open_server"])
def test_a_client_that_imports_a_part_of_the_server_gets_the_same_sentence(name: str) -> None:
    home, _, attribute = name.rpartition(".")
    done = run_bare(CLIENT, f"from {home} import {attribute}")
    assert f"BadSetting: {attribute}() needs the server's packages: pip install windlass-queue" in done.stderr


def test_without_the_engine_package_the_engine_of_the_system_is_used_or_the_error_says_how_to_get_one() -> None:
    done = run_command(CLIENT, "queues", "ls", PATH="/nowhere")
    assert "install the Python package windlass-queue" in done.stderr
