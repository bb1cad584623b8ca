"""Transcripts of dialogues with a real server, shown in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dialects.bedrock.transcript import FOLDER, parse, play
from windlass.server import Server
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
TEXTS = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.txt"))}
DOCUMENT = Path(__file__).parents[3] / "docs" / "bedrock.md"


@pytest.mark.anyio
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_the_transcript_holds(text: str, running: Server, store: Store) -> None:
    requests = [step for step in parse(text) if step.kind == "sent" and not step.text]
    assert await play(text, running.bedrock, store) == len(requests)


@pytest.mark.anyio
async def test_a_transcript_that_does_not_hold_fails(running: Server, store: Store) -> None:
    for wrong in ("> Ping\n>\n201 OK\n", "> Ping\n>\n200 OK\nContent-Length: 1\n", "> Ping\n>\n200 OK\n\nbody\n"):
        with pytest.raises(AssertionError, match="was expected"):
            await play(wrong, running.bedrock, store)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_documentation_shows_the_transcript(text: str, engine: object) -> None:
    assert f"```text\n{text}```\n" in DOCUMENT.read_text()


def test_parsing(engine: object) -> None:
    steps = parse(
        "# remark\n> A\n>\n200 OK\n\n{}\n\nworker> B\nworker>\n! 2 seconds pass\nworker<\n404 No\n! worker leaves"
    )
    assert [tuple(step) for step in steps] == [
        ("sent", "", "A"),
        ("sent", "", ""),
        ("expected", "", "200 OK\n\n{}"),
        ("sent", "worker", "B"),
        ("sent", "worker", ""),
        ("passes", "", "2"),
        ("expected", "worker", "404 No"),
        ("leaves", "worker", ""),
    ]
