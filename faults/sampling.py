"""What the processes of a deployment hold at one instant: memory, descriptors, threads, tasks, connections."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

from .deployment import Deployment
from .load import telling

PATIENCE_S = 5.0
Sample = dict[tuple[str, str], float]  # who, what -> how much


def sample(deployment: Deployment) -> Sample:
    found: Sample = {}
    for member in (*deployment.servers, *deployment.members("worker")):
        if member.is_alive:
            found |= of_process(member.name, member.pid)
    for member in deployment.servers:
        found |= _counted(member.name, tasks_of_server(deployment.metrics_url(member.name)))
    for member in deployment.members("worker"):
        if member.is_alive:
            history = deployment.folder / "histories" / f"{member.name}.jsonl"
            found |= _counted(member.name, telling.asked(member.pid, history, PATIENCE_S))
    for name, pid in deployment.engine.pids.items():
        found |= of_process(name, pid)
    found["engine", "used_memory"] = float(info(deployment, "memory")["used_memory"])
    found["engine", "connections"] = float(info(deployment, "clients")["connected_clients"])
    return found


def of_process(name: str, pid: int) -> Sample:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {
        (name, "memory"): float(status["VmRSS"].split()[0]) * 1024,
        (name, "threads"): float(status["Threads"]),
        (name, "descriptors"): float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
    }


def tasks_of_server(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 (ours)
            told = re.search(r"^windlass_server_tasks\{.*\} (\d+)", answer.read().decode(), re.MULTILINE)
    except (OSError, urllib.error.URLError):
        return None
    return int(told[1]) if told else None


def _counted(name: str, tasks: int | None) -> Sample:
    return {} if tasks is None else {(name, "tasks"): float(tasks)}


def info(deployment: Deployment, section: str) -> dict[str, str]:
    text: str = deployment.engine.ask("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
