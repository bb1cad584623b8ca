"""Resources of a deployment's processes at one instant: memory, descriptors, threads, tasks, connections."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

from .deployment import Deployment
from .load.task_count import request_task_count

PATIENCE_S = 5.0
Sample = dict[tuple[str, str], float]  # process, figure -> value


def take_sample(deployment: Deployment) -> Sample:
    sample: Sample = {}
    for process in (*deployment.servers, *deployment.processes("worker")):
        if process.is_alive:
            sample |= sample_process(process.name, process.pid)
    for process in deployment.servers:
        sample |= _sample_tasks(process.name, count_server_tasks(deployment.metrics_url(process.name)))
    for process in deployment.processes("worker"):
        if process.is_alive:
            history = deployment.folder / "histories" / f"{process.name}.jsonl"
            sample |= _sample_tasks(process.name, request_task_count(process.pid, history, PATIENCE_S))
    for name, pid in deployment.engine.pids.items():
        sample |= sample_process(name, pid)
    sample["engine", "used_memory"] = float(engine_info(deployment, "memory")["used_memory"])
    sample["engine", "connections"] = float(engine_info(deployment, "clients")["connected_clients"])
    return sample


def sample_process(name: str, pid: int) -> Sample:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {
        (name, "memory"): float(status["VmRSS"].split()[0]) * 1024,
        (name, "threads"): float(status["Threads"]),
        (name, "descriptors"): float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
    }


def count_server_tasks(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 (ours)
            metric = re.search(r"^windlass_server_tasks\{.*\} (\d+)", answer.read().decode(), re.MULTILINE)
    except (OSError, urllib.error.URLError):
        return None
    return int(metric[1]) if metric else None


def _sample_tasks(name: str, tasks: int | None) -> Sample:
    return {} if tasks is None else {(name, "tasks"): float(tasks)}


def engine_info(deployment: Deployment, section: str) -> dict[str, str]:
    text: str = deployment.engine.send_command("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
