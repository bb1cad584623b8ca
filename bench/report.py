"""Report: docs/performance.md and its pictures. It is made only from saved figures, so it can be rendered again without
measuring again."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from . import floors, plots
from .figures import Figures, Finding, Measured, Picture, Reading, Table
from .sections import SECTIONS

DOCUMENTS = Path(__file__).resolve().parent.parent / "docs"
DOCUMENT = "performance.md"
FIGURES = "performance.json"
READING = """## How to read it

- **Compare ratios within one run.** Client, worker, engine and kernel compete for the same cores. On a shared machine
  absolute figures move by a third from run to run, and they do not carry over to another machine. If the load average
  before a section is above 0.5, other programs were running and the figures of the section are unreliable.
- Figures are medians of three rounds in which all variants take turns; brackets hold the smallest and largest value. A
  floor counts as missed only when two of three rounds miss it.
- **Durability:** nothing is durable, unless a table names `everysec` or `always`. An engine that is killed during any
  other row loses everything, for Windlass and for the peers. With `always`, acknowledged jobs are on disk; `everysec`
  can lose about a second. Each table compares programs at the same level.
- Peers do not promise the same. Some remove a job from the queue before it runs and lose it with its worker, some poll,
  some do not count attempts. The first table shows how each treats a job whose worker dies. The *best peer* of a row is
  the fastest, whatever it promises. The column next to it has the fastest peer that keeps a job until its end is
  reported, as Windlass does.
- The *bare engine* is the same Valkey over the same unix socket and the same thin client, with raw commands that only
  store and fetch the bytes: no leases, tokens, retries, counters, wakeups or detection of repeated calls. It is the
  upper bound, not a queue. *Bare ASGI* is a server that answers the same bytes and stores nothing.
- Jobs are no-ops. The more work real jobs do, the less the queue matters.
- *script µs* is the engine's time within the function call; *engine CPU µs* is all its CPU time, including sockets.
- Except in the tables about workers and servers, only the measured calls run: no scheduler, recoverer or janitor.
"""


def save(path: Path, figures: Figures) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")


def load(path: Path) -> Figures:
    return msgspec.json.decode(path.read_bytes(), type=Figures)


def write(figures: Figures, documents: Path = DOCUMENTS) -> None:
    for name, content in rendered(figures).items():
        (documents / name).write_text(content)
    save(documents / FIGURES, figures)


def rendered(figures: Figures) -> dict[str, str]:
    """Return the files below docs/ with their content."""
    findings = [finding for section in figures.sections for finding in section.findings]
    found = floors.readings(findings)
    files = {_file(one.name): plots.drawn(one) for one in findings if isinstance(one, Picture)}
    if found:
        files[_file("floors")] = plots.floors(found)
    return {DOCUMENT: _document(figures, found), **files}


def _file(name: str) -> str:
    return f"images/performance-{name}.svg"


def _document(figures: Figures, found: dict[str, Reading]) -> str:
    parts = ["# Performance\n", _made(figures), _summary(found), READING]
    parts += [_chapter(section) for section in figures.sections]
    return "\n".join(parts)


def _made(figures: Figures) -> str:
    quick = [section.name for section in figures.sections if section.is_quick]
    failed = [section.name for section in figures.sections if section.failed]
    minutes = sum(section.seconds for section in figures.sections) / 60
    lines = [
        "After reading this page you can compare Windlass with other queues and with the bare engine, and repeat the "
        "measurements. `python -m bench --write` generates the page from the figures in "
        "[performance.json](performance.json); `python -m bench --report docs/performance.json` generates it again "
        "without measuring. Do not edit it by hand. The [glossary](glossary.md) explains lane, lease and take.",
        "",
        f"- Machine: {figures.machine}",
        f"- Measured: {_days(figures.sections)}, {minutes:.0f} minutes in total",
        f"- Versions: {', '.join(f'{name} {version}' for name, version in figures.versions.items())}",
    ]
    lines += [f"- With fewer samples (`--quick`): {_names(quick, figures.sections)}"] if quick else []
    lines += [f"- **Not completed: {', '.join(failed)}.** Their figures are missing below."] if failed else []
    return "\n".join([*lines, ""])


def _days(sections: Sequence[Measured]) -> str:
    moments = sorted(section.at for section in sections)
    if not moments:
        return "nothing"
    return f"{moments[0]} to {moments[-1]} UTC" if moments[0] != moments[-1] else f"{moments[0]} UTC"


def _names(some: Sequence[str], sections: Sequence[Measured]) -> str:
    return "everything" if len(some) == len(sections) else ", ".join(some)


def _summary(found: dict[str, Reading]) -> str:
    table = floors.table("Floors, goals and results", found)
    lines = ["## Summary", "", _counts(found), "", *_shown("floors", "Distance of each row from its floor")]
    lines = lines if found else lines[:2]
    reasons = floors.reasons(found)
    why = ["Known reasons for rows below their floor or goal:", "", *reasons, ""] if reasons else []
    return "\n".join([*lines, table.markdown(), *why])


def _counts(found: dict[str, Reading]) -> str:
    verdicts = [floors.verdict(floor, found[row].values) if row in found else "not measured"
                for row, floor in floors.FLOORS.items()]  # fmt: skip
    said = [f"{verdicts.count(one)} × {said}" for one, said in floors.SAID.items() if one in verdicts]
    return f"Of {len(verdicts)} rows: {', '.join(said)}."


def _chapter(section: Measured) -> str:
    heading = SECTIONS[section.name].heading if section.name in SECTIONS else section.name
    measured = f"*{section.at} UTC, {section.seconds:.0f} s, load average before {section.load:.1f}.*"
    lines = [f"## {heading}", "", measured, *_apart(section), ""]
    lines += [f"**This section did not complete:** `{_plain(section.failed)}`", ""] if section.failed else []
    for finding in section.findings:
        lines += _finding(finding)
    return "\n".join(lines)


def _apart(section: Measured) -> list[str]:
    """Return how the environment of a section differs from that of the report."""
    if section.apart is None:
        return []
    differing = [f"{name} {version}" for name, version in section.apart.versions.items()]
    differing += [section.apart.machine] if section.apart.machine else []
    return [f"*Measured later, with {', '.join(differing)}.*"]


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


def _finding(finding: Finding) -> list[str]:
    if isinstance(finding, Table):
        return [finding.markdown()]
    return _shown(finding.name, finding.title) if isinstance(finding, Picture) else []


def _shown(name: str, title: str) -> list[str]:
    return [f"![{title}]({_file(name)})", ""]
