"""A program that is too old for a namespace: every entrance refuses it with one sentence, and nothing changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.namespace import dump_keys, send_command
from tests.support.server_process import environment
from windlass import __version__
from windlass.core.job import NewJob
from windlass.core.namespace.format import KNOWN
from windlass.service import Service
from windlass.store.commands.admin.maintenance import require_format
from windlass.store.commands.command import Flow
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

END_LIMIT_S = 120.0
TOO_NEW = KNOWN + 1
SENTENCE = (
    f"Namespace 'wl' has format {TOO_NEW}, for Windlass 9.0.0 or newer. This is Windlass {__version__}, which reads "
    f"formats up to {KNOWN}. Nothing was changed. Upgrade this program, or use another namespace (docs/upgrading.md)."
)
PROGRAM = """
from windlass import Windlass
app = Windlass()
@app.task(queue="mail")
def send() -> None: ...
if __name__ == "__main__":
    send.enqueue()
"""
# Entrance -> arguments of Python, exit code, and how its only line of an error begins.
ENTRANCES = {
    "serve": (["-m", "windlass", "serve"], 1, "windlass: "),
    "two server processes": (["-m", "windlass", "serve", "--workers", "2"], 1, "windlass: "),
    "worker": (["-m", "windlass", "worker", "program:app"], 1, "windlass: "),
    "worker without a parent": (["-m", "windlass", "worker", "program:app", "--no-supervisor"], 1, "windlass: "),
    "command": (["-m", "windlass", "enqueue", "mail", "send"], 1, "windlass: "),
    "doctor": (["-m", "windlass", "doctor", "--repair"], 2, "windlass: the check was not possible: "),
    "processor": (["-m", "windlass", "processor"], 1, '{"log_level":"ERROR",'),
    "program": (["program.py"], 1, "windlass.core.errors.EngineUnsuitable: "),
}


class Ended(NamedTuple):
    code: int
    lines: list[str]  # of both outputs

    def with_sentence(self) -> list[str]:
        return [line for line in self.lines if SENTENCE in line]


class Refused(NamedTuple):
    ended: dict[str, Ended]
    before: Any
    after: Any


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refused]:
    """All programs at once: each needs a second to start."""
    directory = tmp_path_factory.mktemp("too-old")
    (directory / "program.py").write_text(PROGRAM)
    with EngineProcess("valkey") as engine:
        store = Store(parse_url(engine.unix_url))
        Service(store).enqueue([NewJob(queue="mail", name="send")]).wait()
        store.run_sync(_raise_beyond())
        before = _contents(store)
        started = {name: _start(engine, directory, arguments) for name, (arguments, *_) in ENTRANCES.items()}
        ended = {name: _end(process) for name, process in started.items()}
        yield Refused(ended, before, _contents(store))
        store.close_sync()


def _raise_beyond() -> Flow[None]:
    """Raise the format as a newer version does."""
    yield require_format(TOO_NEW, "9.0.0", 0)


def _contents(store: Store) -> Any:
    root = send_command(store, "HGETALL", store.root(0))
    return dump_keys(store), sorted(zip(root[::2], root[1::2], strict=True))


def _start(engine: EngineProcess, directory: Path, arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=directory, env=environment(url=engine.unix_url), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _end(process: subprocess.Popen[str]) -> Ended:
    try:
        output, _ = process.communicate(timeout=END_LIMIT_S)
    finally:
        process.kill()
    return Ended(process.returncode, output.splitlines())


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_it_ends_with_one_sentence(refused: Refused, entrance: str) -> None:
    _, code, start = ENTRANCES[entrance]
    ended = refused.ended[entrance]
    assert ended.code == code, ended.lines
    (line,) = ended.with_sentence()
    assert line.startswith(start), line
    has_traceback = any("Traceback" in line for line in ended.lines)
    assert has_traceback == (entrance == "program"), ended.lines


def test_nothing_was_changed(refused: Refused) -> None:
    assert refused.after == refused.before
