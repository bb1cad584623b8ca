"""windlass worker: its messages, errors and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engine_process import EngineProcess
from windlass.core.job import NewJob
from windlass.server import build_store
from windlass.service import Service
from windlass.settings import Settings

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
APP = """
from windlass import Windlass
app = Windlass("redis://127.0.0.1:1/0")
other = 7
@app.task(queue="mail")
async def send_mail(number: int) -> int:
    return number * 2
@app.task
def resize() -> None: ...
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tasks.py").write_text(APP)
    return tmp_path


def run(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    return subprocess.run(
        [sys.executable, "-m", "windlass", "worker", *arguments],
        cwd=directory,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_messages_at_start_and_end(engine: EngineProcess, directory: Path) -> None:
    settings = Settings(url=engine.unix_url, namespace=f"screen-{os.getpid()}")
    service = Service(build_store(settings))
    service.enqueue([NewJob(queue="mail", name="send_mail")]).one().wait()
    done = run(directory, "shop.tasks", "--url", engine.unix_url, "--namespace", settings.namespace, "--burst", "-c3")
    service.store.close_sync()
    assert done.returncode == 0, done.stderr
    assert f"engine     valkey {service.store.deployment.version} at unix:" in done.stdout  # type: ignore[union-attr]
    assert "queues     default, mail" in done.stdout
    assert "slots      3" in done.stdout
    assert "tasks      resize, send_mail" in done.stdout
    assert "Stopped after 1 job." in done.stdout


@pytest.mark.parametrize(
    ("target", "message", "code"),
    [
        ("nowhere:app", "There is no module 'nowhere' in", 2),
        ("shop.nowhere:app", "There is no module 'shop.nowhere' in", 2),
        ("shop.tasks:ap", "The module 'shop.tasks' has no 'ap'; it has shop.tasks:app.", 2),
        ("shop.tasks:other", "is of type int, not a Windlass app; it has shop.tasks:app.", 2),
        ("shop/tasks.py:app", "name its module: shop.tasks:app.", 2),
        ("shop tasks", "write MODULE:APP", 2),
        ("empty", "make one there: `app = Windlass()`.", 2),
        ("needy", "No module named 'not_installed'", 1),
        ("wrong", "SyntaxError", 1),
        ("raising", "ZeroDivisionError", 1),
    ],
)
def test_refuses_a_wrong_target(engine: EngineProcess, directory: Path, target: str, message: str, code: int) -> None:
    (directory / "empty.py").write_text("")
    (directory / "needy.py").write_text("import not_installed\n")
    (directory / "wrong.py").write_text("app = (\n")
    (directory / "raising.py").write_text("app = 1 / 0\n")
    done = run(directory, target)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "importlib" not in done.stderr
    assert "site-packages" not in done.stderr
    assert str(Path(sys.modules["windlass"].__file__ or "").parent) not in done.stderr  # none of our frames


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--autoscale", "0-3"], "e.g. 1-8"),
        (["--autoscale", "many"], "e.g. 1-8"),
        (["--processes", "2", "--autoscale", "1-3"], "either --processes or --autoscale"),
        (["--burst", "--autoscale", "1-3"], "--processes instead"),
        (["--grace", "soon"], "duration"),
        (["-c", "0"], "1<=x<=1000"),
        (["-q", "x" * 256], "queue"),
    ],
)
def test_refuses_wrong_options(engine: EngineProcess, directory: Path, options: list[str], message: str) -> None:
    done = run(directory, "shop.tasks", *options)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_a_burst_does_not_wait_for_its_engine(engine: EngineProcess, directory: Path) -> None:
    done = run(directory, "shop.tasks:app", "--burst", WINDLASS_PATIENCE="200ms")
    assert done.returncode == 75
    assert "Check that it runs" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_override_the_application_in_child_processes(engine: EngineProcess, directory: Path) -> None:
    """The app's own engine does not exist; a job in a child process enqueues another job."""
    (directory / "shop" / "tasks.py").write_text(
        APP
        + '@app.task(queue="mail", pool="process")\n'
        + "def passes_on() -> str:\n    return send_mail.enqueue(21).id\n"
    )
    settings = Settings(url=engine.unix_url, namespace=f"override-{os.getpid()}")
    service = Service(build_store(settings))
    service.enqueue([NewJob(queue="mail", name="passes_on")]).one().wait()
    done = run(directory, "shop.tasks", "--url", engine.unix_url, "--namespace", settings.namespace, "--burst")
    service.store.close_sync()
    assert "Stopped after 2 jobs." in done.stdout, done.stderr


def test_logs_as_json(engine: EngineProcess, directory: Path) -> None:
    import json

    namespace = f"logs-{os.getpid()}"
    options = ["--url", engine.unix_url, "--namespace", namespace, "--burst", "--log-format", "json"]
    done = run(directory, "shop.tasks", *options)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert any("serves default, mail" in line["message"] for line in lines)
