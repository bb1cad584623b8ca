"""docs/cli.md prints what the program prints: each block runs on a deployment of its section, on the engine and over a
server."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.cli_sections import EXIT_CODES, NOT_RUN, SECTIONS, Prepare
from tests.docs.console_session import Command, commands, normalize, run_in_terminal
from tests.support.console import environment
from tests.support.engine_process import EngineProcess
from tests.support.threaded_server import threaded_server
from windlass.core.access.tokens import NewToken, Role
from windlass.service import Service
from windlass.settings import Settings

COLUMNS = 120
DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
_PART = re.compile(r"^(##+) ([^\n]*)$|^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TIME = r"\d+ ?(?:ms|s|min|h|d|days?)"
_MASKED = (  # in this order
    (re.compile(r"<id>-\d+"), "<id>"),  # of a callback
    (re.compile(r"wl_[\w-]+"), "<token>"),
    (re.compile(r"/signals/[\w-]+"), "/signals/<link>"),
    (re.compile(r"(?:unix|redis|http)://\S+"), "<address>"),
    (re.compile(r"\((?:msgpack|json)\)"), "(<codec>)"),
    (re.compile(r"\((?:in |for )?\d[^)]*\)"), "(<time>)"),
    (re.compile(r"\b\d[\d,]* lines\b"), "<count>"),
    (re.compile(rf"\b{_TIME}\b(?: {_TIME})*(?: ago)?|\bjust now\b"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC|, (?:in )?<time>)"), "<time>"),
    (re.compile(r"<instant>|\bin <time>|<time> ago"), "<time>"),
    (re.compile(r"<time>(?: <time>)+"), "<time>"),
    (re.compile(r"(enqueued|taken|finished|failed|retried|cancelled|recovered) \d+(?:\.\d+)?, \d+"), r"\1 <counts>"),
    (re.compile(r"\bbytes +[\d,]+"), "<bytes>"),
    (re.compile(r"(– |<time> )[\w-]{12}(?= –)"), r"\1<token id>"),
)
_OWN_TOKEN = re.compile(r"^cli .*\n", re.MULTILINE)  # with which the test uses its server
_PROGRESS = re.compile("\x1b\\[\\?25l.*\x1b\\[1A\x1b\\[2K", re.DOTALL)  # bars, which the last output replaces


class Block(NamedTuple):
    section: str
    number: int  # in its section
    commands: list[Command]


def read_blocks() -> Iterator[Block]:
    section, number = "", 0
    for found in _PART.finditer(DOCUMENT.read_text()):
        if found[1]:
            section, number = found[2], 0
        else:
            number += 1
            yield Block(section, number, commands(found[3]))


BLOCKS = [block for block in read_blocks() if not all(line.startswith(tuple(NOT_RUN)) for line, _ in block.commands)]
IDS = [f"{block.section} {block.number}" for block in BLOCKS]


def mask(text: str) -> str:
    text = normalize(_OWN_TOKEN.sub("", _PROGRESS.sub("", text.replace("\r", ""))))
    for pattern, word in _MASKED:
        text = pattern.sub(word, text)
    return text


def prepare_of(block: Block) -> Prepare:
    return SECTIONS.get(f"{block.section} {block.number}") or SECTIONS[block.section]


def test_what_is_not_run_is_on_the_page() -> None:
    typed = [line for block in read_blocks() for line, _ in block.commands]
    assert [words for words in NOT_RUN if not any(line.startswith(words) for line in typed)] == []


def test_every_section_has_its_deployment() -> None:
    assert {block.section for block in BLOCKS} <= set(SECTIONS), "add the section to cli_sections.py"


def run_block(block: Block, variables: dict[str, str], folder: Path) -> Iterator[tuple[Command, str]]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in block.commands:
        if not command.line.startswith(tuple(NOT_RUN)):
            code = EXIT_CODES.get(command.line, 0)
            yield command, run_in_terminal(command.line, folder, os.environ | variables | {"PATH": path}, COLUMNS, code)


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
@pytest.mark.parametrize("way", ["engine", "server"])
@pytest.mark.parametrize("block", BLOCKS, ids=IDS)
def test_a_block_prints_what_the_page_shows(
    service: Service, engine: EngineProcess, tmp_path: Path, block: Block, way: str
) -> None:
    prepare_of(block)(service)
    variables = environment(service)
    if way == "engine":
        _check(block, variables, tmp_path)
        return
    token = service.create_token(NewToken(name="cli", roles=frozenset({Role.ADMIN}))).wait()
    with threaded_server(service.store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as url:
        _check(block, variables | {"WINDLASS_URL": url, "WINDLASS_TOKEN": token.text}, tmp_path)


def _check(block: Block, variables: dict[str, str], folder: Path) -> None:
    for command, output in run_block(block, variables, folder):
        if command.expected:
            assert mask(output) == mask("\n".join(command.expected)), f"$ {command.line}\n{output}"
