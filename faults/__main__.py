"""`python -m faults`: faults under load in every topology, judged; exit code 1 when a promise was not kept.

`python -m faults soak` is the long calm run (soak.py), `python -m faults windows` only the measured losses
(windows.py), `python -m faults report --of FOLDER …` makes one report of several runs."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from . import cable, report, running, soak, windows
from .mischief import FAULTS
from .mischief.fault import EVERYWHERE
from .roster import everybody, few

QUICK_S = 30
SHARES = {"standalone": 0.35, "embedded": 0.15, "sentinel": 0.175, "cluster": 0.175, "namespace": 0.15}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    add = parser.add_argument
    add("what", nargs="?", default="faults", choices=("faults", "windows", "soak", "report"))
    add("--seed", type=int, default=None, help="repeats a plan; default: a new one, which is printed")
    add("--minutes", type=float, default=4.0, help="of faults, over all scenarios")
    add("--seconds", type=float, default=None, help="of faults, in each scenario")
    add("--scenario", nargs="+", default=list(EVERYWHERE), choices=EVERYWHERE)
    add("--quick", action="store_true", help=f"{QUICK_S} seconds of faults on one engine")
    add("--only", nargs="+", default=[], choices=sorted(FAULTS), metavar="KIND", help=", ".join(sorted(FAULTS)))
    add("--rounds", type=int, default=0, help="of each measured loss; 0: none are measured")
    add("--soak-minutes", type=float, default=0.0, help="of the calm run at the end; 0: none")
    add("--folder", type=Path, default=None, help="where logs, histories and findings are kept")
    add("--of", type=Path, nargs="+", default=[], metavar="FOLDER", help="of runs whose report is made into one")
    add("--write", action="store_true", help="write docs/reliability.md")
    return parser


class Progress:
    """One line, written anew; plain lines where nobody watches."""

    def __init__(self) -> None:
        self._began_at_s = time.monotonic()
        self._is_watched = sys.stdout.isatty()

    def __call__(self, what: str) -> None:
        line = f"{time.monotonic() - self._began_at_s:6.0f} s  {what}"
        print(f"\r\033[K{line[:110]}" if self._is_watched else line, end="" if self._is_watched else "\n", flush=True)

    def done(self) -> None:
        if self._is_watched:
            print("\r\033[K", end="", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.quick:
        given.scenario, given.seconds = ["standalone"], QUICK_S
    seed = given.seed if given.seed is not None else random.randrange(1_000_000)  # noqa: S311 (no secret)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="windlass-faults-"))
    print(f"seed {seed}; logs and histories in {folder}")
    progress = Progress()
    found = report.of(given.of) if given.of else report.Report(seed=seed, command=_command(given, seed))
    clients = few if given.quick else everybody
    if given.what == "faults":
        chosen, without = _possible(given.scenario, found, progress)
        for topology in chosen:
            seconds = given.seconds or given.minutes * 60 * _share(topology, given.scenario)
            report.keep(found, folder)
            result = running.run(topology, seed, seconds, folder / topology, progress, given.only, clients, without)
            found.results.append(result)
    if given.rounds or given.what == "windows":
        for topology in given.scenario:
            if topology not in ("embedded", "namespace"):
                report.keep(found, folder)
                found.windows += windows.of_topology(topology, given.rounds or 3, seed, progress)
    if given.soak_minutes or given.what == "soak":
        report.keep(found, folder)
        minutes = given.soak_minutes or given.minutes
        found.soak = soak.run(minutes * 60, seed, folder / "soak", progress)
    report.keep(found, folder)
    progress.done()
    print(report.summary(found))
    if given.write:
        print(f"written: {report.write(found)}")
    if found.findings:
        print(f"{len(found.findings)} findings; the evidence is in {folder}. Repeat with --seed {seed}.")
    return 1 if found.findings else 0


def _possible(scenarios: Sequence[str], found: report.Report, say: running.Say) -> tuple[list[str], list[str]]:
    """The scenarios that can be had on this machine, and the faults that cannot; why not is said."""
    if "namespace" not in scenarios:
        return list(scenarios), []
    refusal = cable.refusal()
    lacking = {} if refusal else cable.lacking()
    found.left_out += [refusal] if refusal else lacking.values()
    for sentence in found.left_out:
        say(sentence)
    return [one for one in scenarios if one != "namespace" or not refusal], list(lacking)


def _share(topology: str, chosen: Sequence[str]) -> float:
    return SHARES[topology] / sum(SHARES[one] for one in chosen)


def _command(given: argparse.Namespace, seed: int) -> str:
    """What was asked for, with the seed: it can be repeated."""
    words = ["python -m faults"]
    words += [given.what] if given.what != "faults" else []
    words += ["--seed", str(seed)]
    if not given.quick:
        words += ["--seconds", f"{given.seconds:g}"] if given.seconds else ["--minutes", f"{given.minutes:g}"]
    words += ["--quick"] if given.quick else []
    if set(given.scenario) != set(EVERYWHERE) and not given.quick:
        words += ["--scenario", *given.scenario]
    words += ["--only", *given.only] if given.only else []
    words += ["--rounds", str(given.rounds)] if given.rounds else []
    words += ["--soak-minutes", f"{given.soak_minutes:g}"] if given.soak_minutes else []
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
