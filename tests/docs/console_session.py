"""Console sessions of documents: their commands, and outputs that can be compared with those of another run."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import termios
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
STYLE = re.compile(r"\x1b\[[\d;]*m")  # bold and the like
COLUMNS, LINES = 100, 50
ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_VARYING = (  # what differs between two runs, from the longest pattern to the shortest
    (ID, "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC( \([^)]*\))?"), "<instant>"),
    (re.compile(r"\b(?:in )?\d+(?:ms|s|m|h|d)\b(?: \d+(?:ms|s|m|h|d)\b)*(?: ago)?|\bnow\b"), "<time>"),
    (re.compile(r"\d+ bytes"), "<bytes>"),
    (re.compile(r"─+"), "─"),
)


class Fence(NamedTuple):
    """A fenced block of a document."""

    language: str
    content: str


class Command(NamedTuple):
    line: str
    expected: list[str]  # lines of its output


def fences(text: str) -> list[Fence]:
    return [Fence(*found) for found in FENCE.findall(text)]


def commands(content: str) -> list[Command]:
    """Return the commands of a console block, each with its output."""
    found: list[Command] = []
    for line in content.splitlines():
        if line.startswith("$ "):
            found.append(Command(line.removeprefix("$ "), []))
        else:
            found[-1].expected.append(line)
    return found


def normalize(text: str) -> str:
    """Return an output without its varying parts. Breaks of lines and spaces between columns vary, too."""
    text = " ".join(text.split())
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def run_in_terminal(
    line: str, directory: Path, environment: dict[str, str], columns: int = COLUMNS, code: int = 0
) -> str:
    """Run a command as in a terminal of a fixed size, and return its output. It must end with the exit code."""
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (LINES, columns))
        variables = {**environment, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(columns)}
        done = subprocess.Popen(["bash", "-c", line], cwd=directory, env=variables, stdout=theirs, stderr=theirs)
    finally:
        os.close(theirs)
    output = _read_all(ours)
    assert done.wait(60) == code, output
    return STYLE.sub("", output)


def _read_all(descriptor: int) -> str:
    parts = []
    with os.fdopen(descriptor, "rb", buffering=0) as terminal:
        while True:
            try:
                part = terminal.read(4096)
            except OSError:  # the last process that had the terminal open has ended
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode()
