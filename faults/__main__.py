"""`python -m faults`: faults under load in every topology. The exit code is 1 if a guarantee was broken.

`soak` is the long run without faults (soak/), `windows` measures only losses (loss_windows.py), `report --of FOLDER`
merges the reports of several runs. `block` and `blocks` run blocks whose results are committed, `page` writes their
sums into docs/reliability.md, and `judge FILE` judges the histories of a run again (block_runs.py)."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from . import block_runs, loss_windows, previous_version, report, scenario
from .client_set import quick_clients
from .injection import FAULTS
from .injection.fault import ALL_TOPOLOGIES
from .requirements import supported_scenarios
from .soak.page import write_soak
from .soak.run import run_soak

QUICK_S = 30
QUICK_FAULTS = ("worker-kill", "engine-kill", "producer-kill")  # a short plan does not have room for all
SHARES = {
    "standalone": 0.3,
    "embedded": 0.14,
    "sentinel": 0.16,
    "cluster": 0.16,
    "namespace": 0.14,
    "scripts": 0.1,
    "versions": 0.1,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    add = parser.add_argument
    add("what", nargs="?", default="faults", choices=("faults", "windows", "soak", "report", *block_runs.COMMANDS))
    add("file", nargs="?", type=Path, default=None, help="of a run, for judge")
    add("--seed", type=int, default=None, help="repeats a plan; default: a new seed, which is printed")
    add("--minutes", type=float, default=4.0, help="of faults, over all scenarios")
    add("--seconds", type=float, default=None, help="of faults, in each scenario")
    add("--scenario", nargs="+", default=list(ALL_TOPOLOGIES), choices=ALL_TOPOLOGIES)
    add("--quick", action="store_true", help=f"{QUICK_S} seconds of faults on one engine")
    add("--only", nargs="+", default=[], choices=sorted(FAULTS), metavar="KIND", help=", ".join(sorted(FAULTS)))
    add("--rounds", type=int, default=0, help="of each measured loss; 0: none are measured")
    add("--soak-minutes", type=float, default=0.0, help="of the run without faults at the end; 0: none")
    add("--folder", type=Path, default=None, help="for logs, histories and findings")
    add("--of", type=Path, nargs="+", default=[], metavar="FOLDER", help="folders of runs whose reports are merged")
    add("--write", action="store_true", help="write docs/reliability.md; of a soak run only its section and its plot")
    add("--previous", default="", help="commit of the version beside the present one, in the scenario versions")
    add("--history", type=Path, default=None, help="of block: also write its histories into this file")
    return parser


class Progress:
    """Progress on stdout: one line that is overwritten on a terminal, else one line per step."""

    def __init__(self) -> None:
        self._began_at_s = time.monotonic()
        self._is_terminal = sys.stdout.isatty()

    def __call__(self, step: str) -> None:
        line = f"{time.monotonic() - self._began_at_s:6.0f} s  {step}"
        print(f"\r\033[K{line[:110]}" if self._is_terminal else line, end="" if self._is_terminal else "\n", flush=True)

    def clear(self) -> None:
        if self._is_terminal:
            print("\r\033[K", end="", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    previous_version.choose(given.previous)
    if given.what in block_runs.COMMANDS:
        return block_runs.run_command(given, Progress())
    if given.quick:
        given.scenario, given.seconds = given.scenario[:1], QUICK_S
    seed = given.seed if given.seed is not None else random.randrange(1_000_000)  # noqa: S311 (no secret)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="windlass-faults-"))
    print(f"seed {seed}; logs and histories in {folder}")
    progress = Progress()
    found = report.merge_reports(given.of) if given.of else report.Report(seed=seed, command=_command(given, seed))
    clients = quick_clients if given.quick else None
    if given.what == "faults":
        chosen, without, found.left_out = supported_scenarios(given.scenario)
        for sentence in found.left_out:
            progress(sentence)
        for topology in chosen:
            seconds = given.seconds or given.minutes * 60 * _share(topology, given.scenario)
            report.save(found, folder)
            certain = QUICK_FAULTS if given.quick else ()
            result = scenario.run_scenario(
                topology, seed, seconds, folder / topology, progress, given.only, clients, without, certain
            )
            found.results.append(result)
    if given.rounds or given.what == "windows":
        for topology in given.scenario:
            if topology in ("standalone", "sentinel", "cluster"):
                report.save(found, folder)
                found.windows += loss_windows.measure_topology(topology, given.rounds or 3, seed, progress)
    if given.soak_minutes or given.what == "soak":
        report.save(found, folder)
        minutes = given.soak_minutes or given.minutes
        found.soak = run_soak(minutes * 60, seed, folder / "soak", progress)
        found.soak.command = f"python -m faults soak --seed {seed} --minutes {minutes:g}"
    report.save(found, folder)
    progress.clear()
    print(report.format_summary(found))
    if given.write:
        print(f"written: {', '.join(map(str, _write(given.what, found)))}")
    if found.findings:
        print(f"{len(found.findings)} findings; the evidence is in {folder}. Repeat with --seed {seed}.")
    return 1 if found.findings else 0


def _write(what: str, found: report.Report) -> list[Path]:
    if found.soak is None:
        return [report.write_page(found)]
    written = write_soak(found.soak, report.format_soak(found.soak))
    return written if what == "soak" else [*written, report.write_page(found)]


def _share(topology: str, chosen: Sequence[str]) -> float:
    return SHARES[topology] / sum(SHARES[name] for name in chosen)


def _command(given: argparse.Namespace, seed: int) -> str:
    """Return the command line with the seed, so that the run can be repeated."""
    words = ["python -m faults"]
    words += [given.what] if given.what != "faults" else []
    words += ["--seed", str(seed)]
    if not given.quick:
        words += ["--seconds", f"{given.seconds:g}"] if given.seconds else ["--minutes", f"{given.minutes:g}"]
    words += ["--quick"] if given.quick else []
    default = [ALL_TOPOLOGIES[0]] if given.quick else ALL_TOPOLOGIES
    if set(given.scenario) != set(default):
        words += ["--scenario", *given.scenario]
    words += ["--only", *given.only] if given.only else []
    words += ["--rounds", str(given.rounds)] if given.rounds else []
    words += ["--soak-minutes", f"{given.soak_minutes:g}"] if given.soak_minutes else []
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
