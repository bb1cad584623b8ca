"""The Python blocks of the guides run, and the names in their tables exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import windlass

DOCUMENTS = Path(__file__).parents[2] / "docs"


def blocks_of(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCUMENTS / document).read_text(), re.MULTILINE | re.DOTALL)


def run_code(code: str, directory: Path, data: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env={**os.environ, "WINDLASS_DATA_DIR": data},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_tutorial(tmp_path: Path) -> None:
    shop, first, wrong, more, testing = blocks_of("tutorial.md")
    (tmp_path / "shop.py").write_text(shop)
    with tempfile.TemporaryDirectory(prefix="wl-") as data:
        refused = run_code(wrong, tmp_path, data)
        assert "price: amount" in refused.stdout, refused.stderr
        alone = run_code(first.replace("timeout=10", "timeout=1"), tmp_path, data)
        assert "TimeoutError" in alone.stderr
        command = [sys.executable, "-m", "windlass", "worker", "shop:app"]
        with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "WINDLASS_DATA_DIR": data}) as worker:
            try:
                answered = run_code(first.replace("timeout=10", "timeout=60"), tmp_path, data)
            finally:
                worker.terminate()
        assert answered.stdout.split()[1:] == ["1.2"], answered.stderr
        ending = "import asyncio\nasyncio.run(checkout(7))"
        with_worker = more.replace("    print(await job)\n", "    print(await worked(job))\n") + WORKED + ending
        done = run_code(with_worker, tmp_path, data)
        assert done.stdout == "sent\n", done.stderr
        tested = run_code(f"{testing}\ntest_price()\nprint('passed')", tmp_path, data)
        assert tested.stdout == "passed\n", tested.stderr


WORKED = """
async def worked(job):
    from windlass import Worker
    await Worker(app, burst=True).run()
    return await job

"""


@pytest.mark.parametrize("block", blocks_of("patterns.md"))
def test_patterns(block: str, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="wl-") as data:
        more = "\nprint(resize_all(range(3)))" if "def resize_all" in block else ""
        done = run_code(block + more, tmp_path, data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("3\n" if more else "")


@pytest.mark.parametrize("document", ["from-celery.md", "from-rq.md", "patterns.md", "tutorial.md"])
def test_links_are_valid(document: str) -> None:
    text = (DOCUMENTS / document).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (DOCUMENTS / target).exists(), target


def test_the_names_in_the_tables_exist() -> None:
    """Check names that the guides for users of other systems mention."""
    text = (DOCUMENTS / "from-celery.md").read_text() + (DOCUMENTS / "from-rq.md").read_text()
    for name in ("Windlass", "Context", "Backoff", "GiveUp", "Rate", "group"):
        assert name in text
        assert hasattr(windlass, name)
    for option in re.findall(r"`(\w+)=…?`", text):
        from windlass.sdk.tasks.options import TaskOptions

        assert option in TaskOptions.__annotations__ or option == "on_failure", option
