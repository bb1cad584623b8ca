"""Every command over a server: it works with the role that it needs, and says which role is missing otherwise."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.live.terminal import WINDLASS
from tests.cli.test_command_line import COMMANDS
from tests.migration.source_redis import SourceRedis
from tests.support.console import run
from tests.support.engine_process import EngineProcess
from windlass.service import Service

from .audited_commands import AUDITED, READ_OVER_A_SERVER, described, read_entries
from .command_cases import CASES, LOCAL, Target
from .conftest import RunOverServer, make_token

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
# Commands that every role may use, as they need no more than the server's version and time.
ANY_ROLE = {"config"}
# Commands whose output on the engine and over a server is the same.
READS = (
    "jobs explain", "jobs logs", "jobs ls", "jobs show", "jobs steps", "jobs stream", "jobs watch", "failed groups",
    "failed ls", "flows ls", "flows show", "limits ls", "schedules ls", "schedules show", "tasks ls", "tasks show",
    "filters ls", "alerts ls", "callbacks ls", "tokens ls",
)  # fmt: skip


# Commands that need the engine itself, their exit code, and their answer to the URL of a server.
URL_REFUSED, FILES_WANTED = "it must begin with redis://", "Give --data-dir for an embedded engine"
NEED_ENGINE = {
    "serve": (2, URL_REFUSED),
    "processor": (1, URL_REFUSED),
    "engine check": (2, FILES_WANTED),
    "engine prepare": (2, URL_REFUSED),
    "engine repair": (2, FILES_WANTED),
}
_OTHER = re.compile(
    r'"sequence":[^,}]*,?|"\w+_codec":"\w+",?|"(?:needs_steps|\w+vent)":\w+,?|"limits":\[[^]]*\],?|"destination":[^,}]*,?|"is_leased":\w+,?|"token":\d+,?'
    r"|\((?:msgpack|json)\)|(?:in )?\d+(?: (?:ms|s|min|h|days?))+(?: ago)?|\d+(?:ms|s|m)\b|just now"
)


@pytest.fixture
def place(service: Service, tmp_path: Path, old: SourceRedis) -> Target:
    return Target(service, tmp_path, old.url)


def test_every_command_has_a_case_or_is_local(engine: EngineProcess) -> None:
    assert {*CASES, *LOCAL} == set(COMMANDS), "add a case to command_cases.py, and what it needs to sdk/remote"
    assert not set(CASES) & set(LOCAL)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_command_works_over_a_server(place: Target, over_server: RunOverServer, name: str) -> None:
    arguments = [*name.split(), *CASES[name](place)]
    done = over_server(*arguments)
    assert done.code == 0, done
    assert "Unknown" not in done.out
    entries = read_entries(place.service)
    assert described(entries) == READ_OVER_A_SERVER.get(name, AUDITED.get(name, []))
    assert {entry.who for entry in entries} <= {"admin"}  # the name of the token


@pytest.mark.parametrize("name", NEED_ENGINE)
def test_a_command_that_needs_the_engine_says_so_over_a_server(engine: EngineProcess, name: str) -> None:
    settings = os.environ | {"WINDLASS_URL": "http://127.0.0.1:9", "WINDLASS_PORT": "0", "WINDLASS_BEDROCK_PORT": "0"}
    command = [*WINDLASS, *name.split()]
    done = subprocess.run(command, env=settings, input="", capture_output=True, text=True, timeout=60, check=False)
    code, says = NEED_ENGINE[name]
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done


@pytest.mark.parametrize("name", READS)
def test_a_command_prints_the_same_as_on_the_engine(place: Target, over_server: RunOverServer, name: str) -> None:
    arguments = [*name.split(), *CASES[name](place)]
    here, there = run(place.service, *arguments), over_server(*arguments)
    assert there.out.splitlines()
    assert _without_times(there.out) == _without_times(here.out)


def _without_times(text: str) -> list[str]:
    """Return the lines without relative times, and without fields that a server does not send."""
    return _OTHER.sub("", text).splitlines()


@pytest.mark.parametrize("name", sorted(set(CASES) - ANY_ROLE))
def test_a_missing_role_ends_with_1_and_is_named(place: Target, over_server: RunOverServer, name: str) -> None:
    token = make_token(place.service, "work")
    role = "produce" if name in ("enqueue", "jobs signal", "jobs signal-url", "flows cancel") else "admin"
    done = over_server(*name.split(), *CASES[name](place), token=token)
    if done.code == 0:
        assert COMMANDS[name].callback
        assert name in READABLE_BY_ID, done
        return
    assert done.code == 1, done
    assert "This needs the role" in done.err, done
    assert role in done.err


# A worker's token may read a job, or a flow, by its id.
READABLE_BY_ID = ("jobs explain", "jobs logs", "jobs show", "jobs steps", "jobs stream", "jobs watch", "flows show")
