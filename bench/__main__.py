"""Run the benchmarks: `python -m bench [--quick] [--write] [section ...]` from the root of the repository.

Figures are saved after every section, so a section that fails loses no other figures. `--write` generates
docs/performance.md from them, `--report FILE` does so without measuring. With some sections only, `--write` replaces
these sections in the report, which says where their machine or versions differ.
"""

import argparse
import datetime
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec

from . import floors, report
from .figures import Environment, Figures, Measured, Setting
from .machine import machine, versions
from .sections import SECTIONS

KEPT = Path(__file__).resolve().parent.parent / ".bench" / "figures.json"


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if options.report:
        return _report(options.report)
    chosen = options.sections or list(SECTIONS)
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    before = _before(parser) if options.write and options.sections else None
    figures = Figures(machine(), versions(), [])
    apart = environment(before, figures) if before else None
    for name in chosen:
        section = measured(name, Setting(options.quick, _say))
        figures.sections.append(msgspec.structs.replace(section, apart=apart))
        report.save(options.figures, figures)
    return _end(figures, before, options.write, options.figures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"some of: {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    parser.add_argument("--write", action="store_true", help=f"write docs/{report.DOCUMENT}, its pictures and figures")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write them from saved figures")
    parser.add_argument("--figures", type=Path, metavar="FILE", default=KEPT, help="save them here, not in .bench/")
    return parser


def _before(parser: argparse.ArgumentParser) -> Figures:
    """Load the figures of the report in which some sections are replaced."""
    path = report.DOCUMENTS / report.FIGURES
    if not path.exists():
        parser.error(f"{path.name} does not exist, so no section can be replaced: run --write with all sections")
    return report.load(path)


def _report(path: Path) -> int:
    if not path.exists():
        print(f"There are no figures in {path}: `python -m bench` measures and saves them.", file=sys.stderr)
        return 2
    try:
        figures = report.load(path)
    except msgspec.DecodeError as problem:
        print(f"{path} does not hold figures of `python -m bench`: {problem}.", file=sys.stderr)
        return 2
    report.write(figures)
    print(f"written: {report.DOCUMENTS / report.DOCUMENT}")
    return 0


def measured(name: str, setting: Setting) -> Measured:
    """Measure a section. A failure is recorded, so that the other sections still run."""
    at, load, began_at_s = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M}", os.getloadavg()[0], time.monotonic()
    try:
        findings, failed = SECTIONS[name].measure(setting), ""
    except (Exception, SystemExit) as problem:  # any failure: the figures of the other sections must survive
        traceback.print_exc()
        findings, failed = (), f"{type(problem).__name__}: {problem}"
    took_s = time.monotonic() - began_at_s
    print("\n".join(text for finding in findings if (text := finding.text())), flush=True)
    setting.say(f"{name} {'failed after' if failed else 'took'} {took_s:.0f} s")
    return Measured(name, at, round(load, 2), round(took_s, 1), setting.is_quick, findings, failed)


def environment(before: Figures, now: Figures) -> Environment | None:
    """Return how the environment differs from that of the report. None: it is the same."""
    machine = now.machine if now.machine != before.machine else ""
    versions = {name: version for name, version in now.versions.items() if before.versions.get(name) != version}
    return Environment(machine, versions) if machine or versions else None


def replaced(before: Figures, now: Sequence[Measured]) -> Figures:
    """Return the earlier sections with the new ones in their places, and further new sections at the end."""
    fresh = {section.name: section for section in now}
    kept = [fresh.pop(section.name, section) for section in before.sections]
    return Figures(before.machine, before.versions, [*kept, *fresh.values()])


def _end(figures: Figures, before: Figures | None, is_written: bool, path: Path) -> int:
    found = floors.readings([finding for section in figures.sections for finding in section.findings])
    if found:
        print(floors.table("Floors and goals", found, list(found)).text())
    print(f"\nfigures: {path}")
    if is_written:
        report.write(replaced(before, figures.sections) if before else figures)
        print(f"written: {report.DOCUMENTS / report.DOCUMENT}")
    failed = [section.name for section in figures.sections if section.failed]
    if failed:
        print(f"Not completed: {', '.join(failed)}. Run them alone with `python -m bench {' '.join(failed)}`.")
    return 1 if failed else 0


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
