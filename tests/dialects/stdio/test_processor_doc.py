"""The dialogue in docs/processor.md, word for word, and its tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.dialects.stdio.processor_client import running_session
from windlass.cli.commands.processor import processor
from windlass.core.operations import Listing
from windlass.dialects.stdio.messages import _LIST_TOPICS, _REPORT_TOPICS
from windlass.service import Service
from windlass.store.store import Store

DOCUMENT = (Path(__file__).parents[3] / "docs" / "processor.md").read_text()
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.anyio
@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
async def test_the_documented_dialogue_holds(store: Store) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    steps = [(line[0], line[2:]) for block in blocks for line in block.splitlines()]
    assert [mark for mark, _ in steps].count("<") == 3
    async with running_session(Service(store)) as processor:
        for mark, text in steps:
            if mark == ">":
                processor.send(text)
            else:
                said = json.dumps(await processor.receive(), separators=(",", ":"))
                assert INSTANT.sub("…", said) == INSTANT.sub("…", text)
        assert await processor.wait_ended() == (True, [])
    (failed,) = (await Service(store).jobs(Listing(queue="images", state="failed", with_errors=True))).jobs
    assert failed.unique == "6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0002"
    await store.close()


def test_every_message_and_every_option_is_documented() -> None:
    for word in (*_REPORT_TOPICS, *_LIST_TOPICS, "add_job", "del_job", "job_assignment", "job_cancelled"):
        assert word in DOCUMENT
    for option in processor.params:
        assert f"`{option.opts[0]}`" in DOCUMENT
