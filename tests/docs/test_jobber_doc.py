"""The curl lines of docs/jobber.md, unchanged but for ids and the port, against a real server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.server_process import ServerProcess, store_options
from windlass.store.store import Store

DOCUMENT = Path(__file__).parents[2] / "docs" / "jobber.md"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_the_curl_lines_give_the_shown_answers(store: Store) -> None:
    blocks = "".join(re.findall(r"^```console\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL))
    steps = re.findall(r"^\$ (curl .*)\n(.*)\n", blocks, re.MULTILINE)
    assert len(steps) == 7
    ids: dict[str, str] = {}  # id in the document -> id in this deployment
    with ServerProcess(store_options(store)) as server:
        for command, expected in steps:
            here = command.replace("http://localhost:8080", f"http://localhost:{server.address[1]}")
            output = subprocess.run(
                ["sh", "-c", _with_ids(here, ids)], capture_output=True, text=True, check=True
            ).stdout.strip()
            ids |= zip(UUID.findall(expected), UUID.findall(output), strict=False)
            pattern = re.escape(_with_ids(expected, ids)).replace("…", ".*")
            assert re.fullmatch(pattern, output), (command, output)


def _with_ids(text: str, ids: dict[str, str]) -> str:
    return UUID.sub(lambda found: ids.get(found[0], found[0]), text)
