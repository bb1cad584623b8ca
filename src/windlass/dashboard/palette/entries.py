"""Entries of the palette, and the rule by which typed words select and order them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.core.text.control_characters import escape_control

SHOWN_MAX = 20
PER_KIND_MAX = 6  # so that many jobs or queues do not push everything else away


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A page to open (`href`), or an action: a form that is sent. An action that needs a confirmation answers with the
    form that asks for it."""

    kind: str
    title: str
    note: str = ""
    icon: str = ""  # name of it
    href: str = ""
    action: str = ""  # path of the form
    fields: Mapping[str, str] = {}
    words: str = ""  # more texts that may be typed, and are not shown


class ShownEntry(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    title: str
    note: str
    outline: str  # of its icon, as the data of an SVG path
    href: str
    action: str
    fields: Mapping[str, str]


def select(query: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that contain every typed word. Those whose title begins with the words come first, then those
    with a word of the title that begins with the first word. Equal entries keep their order."""
    words = query.casefold().split()
    ranked = [(rank, entry) for entry in entries if (rank := _rank(entry, words)) is not None]
    ranked.sort(key=lambda pair: pair[0])
    return _bounded([entry for _, entry in ranked])


def _rank(entry: Entry, words: Sequence[str]) -> int | None:
    title = entry.title.casefold()
    text = f"{title} {entry.kind} {entry.note} {entry.words}".casefold()
    if not all(word in text for word in words):
        return None
    if not words or title.startswith(" ".join(words)):
        return 0
    if any(part.startswith(words[0]) for part in title.split()):
        return 1
    return 2 if all(word in title for word in words) else 3


def _bounded(entries: Sequence[Entry]) -> list[Entry]:
    counts: dict[str, int] = {}
    kept = []
    for entry in entries:
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
        if counts[entry.kind] <= PER_KIND_MAX or entry.kind == "Page":
            kept.append(entry)
    return kept[:SHOWN_MAX]


def show(entry: Entry, outline: str) -> ShownEntry:
    return ShownEntry(
        kind=entry.kind,
        title=escape_control(entry.title),
        note=escape_control(entry.note),
        outline=outline,
        href=entry.href,
        action=entry.action,
        fields=entry.fields,
    )
