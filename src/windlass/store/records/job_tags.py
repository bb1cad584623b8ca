"""Tags of a record: those of the producer, and those that the store adds for indexed payload fields.

lua/lib/jobs/job_tags.lua reads the same form. A name cannot contain the characters that mark the added tags, so no tag
of a producer is mistaken for one.
"""

from __future__ import annotations

from collections.abc import Sequence

_SEPARATOR = "\0"
_ENTRY = "\1"  # precedes an entry of the payload index; the tag finds the job
_FIELD = "\2"  # precedes a field that the producer indexes; kept for later payloads, and finds nothing


def entry_tag(entry: str) -> str:
    return _ENTRY + entry


def join_tags(tags: Sequence[str], index: Sequence[str], entries: Sequence[str]) -> str:
    if not (index or entries):
        return _SEPARATOR.join(tags)
    return _SEPARATOR.join([*tags, *map(entry_tag, entries), *(_FIELD + path for path in index)])


def split_tags(joined: bytes) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return tags, indexed fields of the producer, and entries."""
    tags = joined.decode().split(_SEPARATOR) if joined else []
    return (
        tuple(tag for tag in tags if tag[0] not in (_ENTRY, _FIELD)),
        tuple(tag[1:] for tag in tags if tag[0] == _FIELD),
        tuple(tag[1:] for tag in tags if tag[0] == _ENTRY),
    )
