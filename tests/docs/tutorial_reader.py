"""A reader who does what a tutorial says: commands in one terminal, workers in others."""

from __future__ import annotations

import os
from pathlib import Path

from tests.docs.console_session import ID, Command, commands, fences, normalize, run_in_terminal
from tests.support.worker_process import WorkerProcess, wait_until


class TutorialReader:
    """Runs the blocks of a document in their order, and compares outputs with those shown."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._environment = environment
        self._workers: list[WorkerProcess] = []
        self._job_id = ""

    def run(self, text: str) -> None:
        for fence in fences(text):
            if fence.language == "console":
                for command in commands(fence.content):
                    self._run_command(command)
            elif fence.language == "text":
                self._wait_for_lines(fence.content)

    def _run_command(self, command: Command) -> None:
        if command.line.startswith("windlass worker"):
            arguments = command.line.split()[2:]
            worker = WorkerProcess(*arguments, directory=self._directory, environment=self._environment)
            self._workers.append(worker.wait_ready())
        elif command.line.startswith("pkill -9"):
            self._workers[-1].kill_all()
        else:
            self._compare(command)

    def _compare(self, command: Command) -> None:
        """Run a command until it prints what the document shows: the job may need a moment to get there."""
        expected, found = normalize("\n".join(command.expected)), ""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}

        def is_printed() -> bool:
            nonlocal found
            line = ID.sub(self._job_id, command.line)
            output = run_in_terminal(line, self._directory, {**inherited, **self._environment})
            self._job_id = self._job_id or output.strip()
            found = normalize(output)
            return found == expected

        try:
            wait_until(is_printed, command.line, 30)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{found}\ninstead of\n{expected}") from None

    def _wait_for_lines(self, content: str) -> None:
        worker = self._workers[-1]
        for line in ID.sub(self._job_id, content).splitlines():
            worker.wait_for_output(line)

    @property
    def output(self) -> str:
        return "".join(worker.output for worker in self._workers)

    def close(self) -> None:
        for worker in self._workers:
            worker.remove()
