"""The examples of docs/streams.md give the results shown, with a real worker."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.test_tasks_doc import RESULT, at_work
from tests.support.engine_process import EngineProcess
from windlass.core.durable import STREAM_BYTES_MAX, STREAM_KEPT_MS, STREAM_VALUE_MAX, STREAM_VALUES_MAX
from windlass.sdk.streams.reader import StreamEntry
from windlass.wire.sse import KEEP_ALIVE_S

DOCUMENT = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_the_examples_do_what_they_say(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"streams{os.getpid()}")
    writing, reading, repeated, response = BLOCKS
    names: dict[str, Any] = {}
    declarations, _, _ = repeated.partition("job = ")
    exec(writing + declarations + response, names)  # noqa: S102
    with at_work(names["app"]):
        checked = run(reading, names) + run(repeated.removeprefix(declarations), names)
    names["app"].close()
    assert checked == 5


def run(block: str, names: dict[str, Any]) -> int:
    """Run the lines of a block, and return how many results were checked."""
    checked = 0
    for line in block.splitlines():
        code, _, expected = line.partition(RESULT)
        if expected:
            assert repr(eval(code, names)) == expected, code  # noqa: S307
            checked += 1
        else:
            exec(code, names)  # noqa: S102
    return checked


def test_fields_and_numbers_are_right() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE)) == set(StreamEntry.__struct_fields__)
    text = " ".join(DOCUMENT.split())
    assert f"up to {STREAM_VALUE_MAX // 1024} KiB" in text
    assert f"up to {STREAM_VALUES_MAX:,} values and {STREAM_BYTES_MAX // 1024**2} MiB" in text
    assert f"every {KEEP_ALIVE_S:.0f} seconds" in text
    assert STREAM_KEPT_MS == 10 * 60_000
    assert "ten minutes after the end" in text
