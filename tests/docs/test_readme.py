"""The examples of the README run unchanged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_the_first_job_of_the_readme_runs(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(_blocks("README.md")[0])
    with tempfile.TemporaryDirectory(prefix="wl-") as data:
        environment = {**os.environ, "WINDLASS_DATA_DIR": data}
        command = [sys.executable, "-m", "windlass", "worker", "shop:app"]
        with subprocess.Popen(command, cwd=tmp_path, env=environment) as worker:
            try:
                done = subprocess.run(
                    [sys.executable, "shop.py"],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
            finally:
                worker.terminate()
    assert done.returncode == 0, done.stderr
    (console,) = re.findall(r"```console\n(\$ windlass worker.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert done.stdout.strip() == console.strip().splitlines()[-1]


def test_the_second_block_of_the_readme_runs(tmp_path: Path) -> None:
    """Run the block with a worker in the same event loop."""
    shop, everything = _blocks("README.md")[:2]
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "more.py").write_text(
        everything.replace("10_000", "100")
        + """
import asyncio
from windlass import Worker

async def main():
    worker = Worker(app, concurrency=10, target="more:app")
    running = asyncio.create_task(worker.run())
    await worker.wait_until_ready()
    await everything()
    worker.stop()
    await running
    await app.aclose()

asyncio.run(main())
"""
    )
    with tempfile.TemporaryDirectory(prefix="wl-") as data:
        environment = {**os.environ, "WINDLASS_DATA_DIR": data}
        done = subprocess.run(
            [sys.executable, "more.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "mail about order 8 sent" in done.stdout
    assert "finished" in done.stdout


def test_the_first_job_of_the_service_runs() -> None:
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        code = _blocks("docs/service.md")[0].replace("/tmp/windlass-demo", directory)  # noqa: S108
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "attempt 1" in done.stdout


def test_the_first_screen_names_the_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    assert "make serve" in first_screen
    assert "make test" in first_screen
