"""docs/backup.md: its commands are valid, its table has every option, and the unit of systemd runs what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.test_command_line import check_usage
from windlass.cli.commands.transfer.backups import create

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "backup.md").read_text()
UNIT = (ROOT / "deploy" / "systemd" / "windlass-backup.service").read_text()
COMMANDS = re.findall(r"(?:^\$ |^0 3 \* \* \* WINDLASS_URL=\S+ |^ExecStart=/opt/windlass/bin/)windlass (.*?)(?: >.*)?$",
                      DOCUMENT + UNIT, re.MULTILINE)  # fmt: skip


def test_commands_are_found_in_the_console_the_crontab_and_the_unit() -> None:
    assert len(COMMANDS) == 5


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_valid(command: str) -> None:
    check_usage(shlex.split(command))


def test_the_table_has_every_option() -> None:
    listed = set(re.findall(r"^\| `(--\w+)", DOCUMENT, re.MULTILINE))
    options = {option for param in create.params for option in param.opts if option.startswith("--")}
    assert listed == options - {"--url", "--data-dir", "--namespace"}
