"""Dialogues with the server, kept as text.

`> Ping` is a line to send, `worker> Ping` a line on another connection; `>` is the empty line that ends a request.
The expected reply of the last connection follows; `worker<` before a reply names another connection, and `<` separates
several replies. `<time>`, `<number>` and `<words>` are placeholders. `! 60 seconds pass` moves the clock;
`! worker leaves` closes a connection; `#` starts a comment. Only the headers in the transcript are compared."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

from tests.dialects.bedrock.client import ClientReply, SocketClient, connect
from windlass.store.store import Store

FOLDER = Path(__file__).parent / "transcripts"
PLACEHOLDERS = {
    "<time>": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?",
    "<number>": r"\d+",
    "<words>": r".+",
}
_MARK = re.compile(
    r"(?P<sender>\w*)> ?(?P<sent>.*)|(?P<told>\w*)<|! (?P<s>\d+) seconds? pass|! (?P<leaver>\w+) leaves|#.*"
)


class Step(NamedTuple):
    kind: str  # sent, expected, passes, leaves
    who: str = ""
    text: str = ""


def parse(text: str) -> list[Step]:
    steps: list[Step] = []
    who, reply = "", list[str]()
    for line in [*text.splitlines(), "#"]:
        found = _MARK.fullmatch(line)
        if found is None:
            reply.append(line)
            continue
        if result := "\n".join(reply).strip("\n"):
            steps.append(Step("expected", who, result))
        reply.clear()
        if found["sent"] is not None:
            who = found["sender"]
            steps.append(Step("sent", who, found["sent"]))
        elif found["told"] is not None:
            who = found["told"] or who
        elif found["s"]:
            steps.append(Step("passes", text=found["s"]))
        elif found["leaver"]:
            steps.append(Step("leaves", found["leaver"]))
    return steps


def matches(expected: str, found: str) -> bool:
    pattern = "".join(PLACEHOLDERS.get(part) or re.escape(part) for part in re.split(r"(<\w+>)", expected))
    return re.fullmatch(pattern, found) is not None


def check(expected: str, answer: ClientReply) -> None:
    head, _, body = expected.partition("\n\n")
    line, *headers = head.split("\n")
    result = "\n".join([answer.line, *(f"{name}: {value}" for name, value in answer.headers.items())])
    result += f"\n\n{answer.body.decode()}"
    assert matches(line, answer.line), f"{line!r} was expected:\n{result}"
    for header in headers:
        name, _, value = header.partition(": ")
        assert matches(value, answer.headers.get(name, "")), f"{header!r} was expected:\n{result}"
    assert matches(body, answer.body.decode()), f"{body!r} was expected:\n{result}"


async def play(text: str, address: str, store: Store) -> int:
    """Play a transcript against a real server. Return the number of replies compared."""
    clients: dict[str, SocketClient] = {}
    checked = 0
    async with contextlib.AsyncExitStack() as stack:
        for step in parse(text):
            if step.kind == "passes":
                store.clock_offset_ms += int(step.text) * 1000
                continue
            if step.who not in clients:
                clients[step.who] = await stack.enter_async_context(connect(address))
            client = clients[step.who]
            if step.kind == "sent":
                await client.send(step.text.encode() + b"\n")
            elif step.kind == "expected":
                check(step.text, await client.answer())
                checked += 1
            else:
                client.writer.close()
                await client.writer.wait_closed()
                del clients[step.who]
    return checked
