"""Process that runs under callgrind, and the count of the instructions that it executes in a block."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

TOOLS = ("valgrind", "vgdb")
CONTROL_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
_SUMMARY = re.compile(r"^summary: (\d+)", re.MULTILINE)


class BadProfile(Exception):
    """Profile without a sum of instructions."""


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def parse_profile(text: str) -> int:
    """Return the instructions of all parts (threads) of a profile that callgrind has written."""
    found = _SUMMARY.findall(text)
    if not found:
        raise BadProfile("callgrind wrote a profile without a sum of instructions")
    return sum(map(int, found))


def _path(tool: str) -> str:
    return shutil.which(tool) or tool


class Count:
    """Result of `CountedProcess.counted`, filled in when its block ends."""

    instructions = 0


class CountedProcess:
    """Process under callgrind. It is counted only within `counted`; elsewhere it runs faster if `starts_counting` is
    False."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, starts_counting: bool = True
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="wl-"))  # short: a unix socket's path has ~100 bytes
        self._command = command
        self._environment = environment
        self._is_counting = starts_counting

    def __enter__(self) -> Self:
        options = [
            f"--callgrind-out-file={self.directory}/profile",
            f"--vgdb-prefix={self.directory}/vgdb",
            f"--instr-atstart={'yes' if self._is_counting else 'no'}",
        ]
        self._errors = (self.directory / "errors").open("wb")
        self._process = subprocess.Popen(
            [_path("valgrind"), "--quiet", "--tool=callgrind", *options, *self._command],
            env=None if self._environment is None else {**os.environ, **self._environment},
            cwd=Path(__file__).resolve().parent.parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(STOP_LIMIT_S)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def error_output(self) -> str:
        return (self.directory / "errors").read_text(errors="replace")[-2000:]

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def wait_for(self, line: str) -> None:
        """Read the output up to a line."""
        output: IO[str] | None = self._process.stdout
        assert output is not None
        for said in output:
            if said == f"{line}\n":
                return
        raise RuntimeError(f"a counted process ended early: {self.error_output}")

    @contextlib.contextmanager
    def counted(self) -> Iterator[Count]:
        count = Count()
        if not self._is_counting:
            self._control("instrumentation", "on")
            self._is_counting = True
        self._control("zero")
        yield count
        self._control("dump")
        profiles = list(self.directory.glob("profile.*"))  # an earlier one is removed at once
        count.instructions = sum(parse_profile(profile.read_text()) for profile in profiles)
        for profile in profiles:
            profile.unlink()

    def _control(self, *words: str) -> None:
        command = [_path("vgdb"), f"--pid={self._process.pid}", f"--vgdb-prefix={self.directory}/vgdb", *words]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=CONTROL_LIMIT_S, check=False)
        if ran.returncode:
            raise RuntimeError(f"callgrind cannot be controlled ({' '.join(words)}): {ran.stderr} {self.error_output}")
