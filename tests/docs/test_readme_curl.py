"""The curl lines of documents, with only the port changed, against a new `windlass serve`."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.server_process import ServerProcess
from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.web.app import health, problems
from windlass.wire.problems import HttpRefusal, status_of

ROOT = Path(__file__).parents[2]


class CurlExample(NamedTuple):
    command: str
    answer: str  # `…` stands for anything


def _curl_examples(document: str) -> Iterator[CurlExample]:
    text = (ROOT / document).read_text()
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            count = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\"))
            if "curl " in part:
                yield CurlExample("\n".join(lines[:count]), "\n".join(lines[count:]))


def _pattern(answer: str) -> str:
    return ".*".join(re.escape(piece) for piece in answer.split("…"))


@pytest.mark.parametrize(("document", "at_least"), [("README.md", 4), ("docs/http.md", 12)])
def test_the_curl_lines_give_the_shown_answers(document: str, at_least: int) -> None:
    examples = list(_curl_examples(document))
    assert len(examples) >= at_least
    with tempfile.TemporaryDirectory(prefix="wl-") as data, ServerProcess([], data_dir=data) as server:
        for command, answer in examples:
            here = command.replace("localhost:8080", f"localhost:{server.address[1]}")
            assert here != command
            done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, (command, done.stderr)
            output = done.stdout.strip()
            assert re.fullmatch(_pattern(answer.strip()), output, re.DOTALL), (command, output)


def _error_types(error: type[WindlassError]) -> Iterator[type[WindlassError]]:
    yield error
    for narrower in error.__subclasses__():
        yield from _error_types(narrower)


def test_the_table_of_errors_has_every_code_with_its_status() -> None:
    modules = {errors.__name__, problems.__name__, health.__name__}
    general = {WindlassError, errors.Refusal, HttpRefusal}
    expected = {
        error.code: status_of(error)
        for error in _error_types(WindlassError)
        if error.__module__ in modules and error not in general
    }
    rows = re.findall(r"^\| (`.*?`) \| (\d{3}) \| .+ \|$", (ROOT / "docs/http.md").read_text(), re.MULTILINE)
    found = [(code, int(status)) for codes, status in rows for code in re.findall(r"`(\w+)`", codes)]
    assert dict(found) == expected
    assert len(found) == len(expected)
