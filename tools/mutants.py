"""Mutation test: plant known bugs one by one into a copy of the package, and run the state machine, which must fail.

Run `python tools/mutants.py [part of a name ...]` from the root of the checkout. A patch that begins with
`# found by: tests/…` names another test that must fail instead. A patch that no longer applies must be written again,
because the source has changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "mutants"
LIMIT_S = 120
AT_ONCE = max(1, (os.cpu_count() or 2) // 2)  # each run needs a core for itself and one for its engine
MACHINE = "tests/service/machines/test_machine.py"


class Verdict(NamedTuple):
    mutant: str
    is_found: bool
    took_s: float
    said: str


def main(wanted: list[str]) -> int:
    patches = [patch for patch in sorted(MUTANTS.glob("*.patch")) if not wanted or any(w in patch.name for w in wanted)]
    if not patches:
        print(f"No mutant has a name with {' or '.join(wanted)}.")
        return 2
    print(f"{'mutant':44} {'found':>9}  by", flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = [_shown(verdict) for verdict in pool.map(_judge, patches)]
    missed = [verdict.mutant for verdict in verdicts if not verdict.is_found]
    print(
        f"{len(verdicts) - len(missed)} of {len(verdicts)} found"
        + (f"; not found: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


def _shown(verdict: Verdict) -> Verdict:
    when = f"{verdict.took_s:.1f} s" if verdict.is_found else "NOT"
    print(f"{verdict.mutant:44} {when:>9}  {verdict.said}", flush=True)
    return verdict


def _judge(patch: Path) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="wl-mutant-") as directory:
        shutil.copytree(ROOT / "src", Path(directory, "src"), ignore=shutil.ignore_patterns("__pycache__"))
        applied = _run(["git", "apply", str(patch)], Path(directory), 10)
        if applied.returncode:
            return Verdict(patch.stem, False, 0, "does not apply, rewrite the patch: " + applied.stdout.strip()[-100:])
        return _hunt(patch.stem, _hunter(patch), Path(directory))


def _hunter(patch: Path) -> str:
    named = re.match(r"# found by: (\S+)\n", patch.read_text())
    return named[1] if named else MACHINE


def _hunt(mutant: str, hunter: str, directory: Path) -> Verdict:
    environment = os.environ | {
        "PYTHONPATH": str(directory / "src"),
        "WINDLASS_MUTANT": "1",
        "WINDLASS_DEEP": "1",  # run up to the time limit: the daily profile may miss a rare bug
        "HYPOTHESIS_STORAGE_DIRECTORY": str(directory / "hypothesis"),
    }
    command = [sys.executable, "-m", "pytest", hunter, "-x", "--show-capture=no", "--tb=short"]
    started_s = time.monotonic()
    try:
        outcome = _run(command, ROOT, LIMIT_S, environment)
    except subprocess.TimeoutExpired:
        return Verdict(mutant, False, LIMIT_S, f"survives for {LIMIT_S} s")
    took_s = time.monotonic() - started_s
    if outcome.returncode == 0:
        return Verdict(mutant, False, took_s, "survives all examples")
    is_found = outcome.returncode == 1 and (hunter != MACHINE or "state = Machine()" in outcome.stdout)
    return Verdict(mutant, is_found, took_s, _reason(outcome.stdout))


def _reason(output: str) -> str:
    """Return the place and the first line of the failure."""
    errors = re.findall(r"^E   +(\w*(?:Error|Exception|Refusal)\b.*)$", output, re.MULTILINE)
    places = re.findall(r"^tests/\w+/\w+\.py:\d+: in (\w+)$", output, re.MULTILINE)
    return f"{places[-1] if places else '?'}: {errors[0] if errors else output.strip().splitlines()[-1]}"[:150]


def _run(
    command: list[str], directory: Path, limit_s: float, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env=environment,
        timeout=limit_s,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
