"""The whole command line: help, documentation, and real processes with pipes and terminals."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.live.terminal import WINDLASS, Terminal
from tests.service.helpers import counts, new, put
from tests.support.console import environment, run_with_settings
from windlass.cli.main import windlass
from windlass.core.ids import format_id
from windlass.service import Service

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
WITHOUT_ENGINE = {"config", "completion", "backup verify"}
one_engine = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def commands_of(group: click.Group) -> dict[str, click.Command]:
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    assert all(found.values())
    return {name: command for name, command in found.items() if command}


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in commands_of(group).items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(leaves(windlass))


# Commands that change nothing in a deployment, and so have no --yes.
READING = {
    "audit", "completion", "config", "engine check", "engine prepare", "export", "backup create", "backup verify",
    "jobs explain", "jobs logs", "jobs steps", "jobs stream", "jobs watch", "jobs awaited", "failed groups",
    "queues scale", "top",
    "serve", "worker", "processor",  # they run until they are stopped
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_changes_something_takes_yes(name: str) -> None:
    """So a script can add -y to each of them, whether it asks or not."""
    is_reading = name in READING or name.rpartition(" ")[2] in ("ls", "show")
    options = [option for parameter in COMMANDS[name].params for option in parameter.opts]
    assert ("--yes" in options) == ("-y" in options) == (not is_reading)


# Help and documentation


def examples(text: str) -> list[list[str]]:
    """Return the arguments of each example, up to a pipe or a redirection."""
    lines = re.findall(r"^\s*\$? ?windlass (.*)$", text, re.MULTILINE)
    return [shlex.split(re.split(r" [|<>] ", line)[0]) for line in lines]


def check_usage(arguments: list[str]) -> None:
    """Parse a command without running it. Raise if it is wrong."""
    command: click.Command = windlass
    context = click.Context(windlass, info_name="windlass")
    while isinstance(command, click.Group):
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command, context = found, click.Context(found, info_name=name, parent=context)
    command.make_context(command.name, [re.sub(r"^(@.*|-)$", "{}", argument) for argument in arguments])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_a_valid_example(name: str) -> None:
    text = inspect.cleandoc(COMMANDS[name].help or "")
    assert "\b\nExample:\n" in text
    shown = examples(text)
    assert shown
    for arguments in shown:
        assert " ".join(arguments).startswith(name)
        check_usage(arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_an_example(name: str) -> None:
    document = DOCUMENT.read_text()
    assert f"`windlass {name}" in document
    assert any(" ".join(arguments).startswith(name) for arguments in examples(document))


def test_the_documented_examples_are_valid() -> None:
    blocks = re.findall(r"```console\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    typed = [line for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(typed) >= len(COMMANDS)
    for arguments in examples("\n".join(typed)):
        check_usage(arguments)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - WITHOUT_ENGINE))
def test_every_command_has_engine_options(name: str) -> None:
    options = {option for param in COMMANDS[name].params for option in param.opts}
    assert {"--url", "--data-dir", "--namespace"} <= options


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.split()[-1] in ("ls", "show", "explain", "top")])
def test_every_reading_command_has_json(name: str) -> None:
    assert "--json" in {option for param in COMMANDS[name].params for option in param.opts}


# Real processes


def start(service: Service, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WINDLASS, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment(service) | environ,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


@one_engine
def test_exit_codes_and_pipes(service: Service) -> None:
    done = start(service, "enqueue", "mail", "send", "[1]")
    assert (done.returncode, done.stderr) == (0, "")
    key = done.stdout.strip()
    assert start(service, "jobs", "ls").stdout.startswith(f"{key}\tmail\tsend\tqueued\t")
    assert json.loads(start(service, "jobs", "ls", "--json").stdout)["payload"] == [1]
    unknown = start(service, "jobs", "show", "01a1e21f-2249-7000-aad3-893cc7fff097")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr.startswith("windlass: There is no job")
    for usage in (["jobs", "show"], ["jobs", "ls", "--state", "x"], ["nonsense"], ["jobs", "--nonsense"]):
        assert start(service, *usage).returncode == 2
    assert start(service, "--help").returncode == 0


@one_engine
def test_escapes_characters_that_the_encoding_lacks(service: Service) -> None:
    put(service, new("q", "東京"))
    done = start(service, "jobs", "ls", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert "q\t\\u6771\\u4eac" in done.stdout


@one_engine
def test_a_closed_pipe_causes_no_traceback(service: Service) -> None:
    put(service, *(new(name="n" * 500) for _ in range(500)))
    command = ["sh", "-c", shlex.join([*WINDLASS, "jobs", "ls", "--limit", "0"]) + " | head -1"]
    environ = os.environ | environment(service)
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.parametrize("command", [["queues", "ls"], ["enqueue", "q", "n"], ["top", "--once"]])
def test_no_engine_exits_with_75(command: list[str]) -> None:
    environ = os.environ | {"WINDLASS_PATIENCE": "100ms"}
    arguments = [*WINDLASS, *command, "--url", "redis://127.0.0.1:1/0"]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (75, "")
    assert "Check that it runs" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = subprocess.run([*WINDLASS, "completion", shell], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_WINDLASS_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("windlass q", "queues"), ("windlass jobs ex", "explain"), ("windlass jobs ls --st", "--state")],
)
def test_completes_subcommands_and_options(typed: str, expected: str) -> None:
    number = str(len(typed.split()) - 1)
    environ = os.environ | {"_WINDLASS_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": number}
    done = subprocess.run(WINDLASS, capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert done.stdout == f"plain,{expected}\n"


# Terminals


@one_engine
@pytest.mark.parametrize("columns", [60, 80, 140])
def test_tables_fit_the_terminal(service: Service, columns: int) -> None:
    (made,) = put(service, new("mail", "send_" + "x" * 100, tags=("a",)))
    terminal = Terminal(service, "jobs", "ls", columns=columns)
    assert terminal.end() == 0
    heading, _, row = [line.rstrip() for line in terminal.lines][:3]
    assert heading.startswith("id ")
    assert row.startswith(format_id(made.id))
    assert "…" in row
    assert max(len(line.rstrip()) for line in terminal.lines) <= columns
    assert ("priority" in heading) == (columns == 140)


@one_engine
def test_ids_are_whole_on_any_terminal(service: Service) -> None:
    (made,) = put(service, new("mail", "send"))
    terminal = Terminal(service, "jobs", "ls", columns=30)
    assert terminal.end() == 0
    assert format_id(made.id) in terminal.seen


def test_the_list_of_commands_is_not_cut_off() -> None:
    groups = [command for command in commands_of(windlass).values() if isinstance(command, click.Group)]
    for group in (windlass, *groups):
        shown = group.get_help(click.Context(group, info_name=group.name, terminal_width=80))
        assert "..." not in shown.partition("Commands:")[2]


@one_engine
def test_asks_for_confirmation_on_a_terminal(service: Service) -> None:
    put(service, new(), new())
    for answer, left in (("n\n", {"queued": 2}), ("y\n", {})):
        terminal = Terminal(service, "queues", "purge", "q")
        terminal.read_until("Delete 2 jobs of queue q permanently? [y/N]")
        terminal.type(answer)
        assert terminal.end() == (1 if left else 0)
        assert counts(service) == left
    assert "Deleted 2 jobs." in terminal.seen


@one_engine
@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_key_ends_the_live_screen(service: Service, key: str) -> None:
    put(service, new("mail"))
    terminal = Terminal(service, "top", "--every", "200ms")
    terminal.read_until("mail")
    put(service, new("later"))
    terminal.read_until("later")
    terminal.type(key)
    assert terminal.end() == 0
    assert "\x1b[?1049l" in terminal.seen  # the previous screen is restored
    assert "Traceback" not in terminal.seen


# Suggestions


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("job ls", 'No such command "job"; did you mean "jobs"?'),
        ("jobs lss", 'No such command "lss"; did you mean "ls"?'),
        ("queues configur mail", 'No such command "configur"; did you mean "configure"?'),
        ("xylophone", 'No such command "xylophone".'),
        ("jobs ls --queu mail", "'--queue'?"),
    ],
)
def test_a_misspelt_command_or_option_is_suggested(typed: str, sentence: str) -> None:
    done = run_with_settings(*typed.split())
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
