"""Commands of saved filters: filters, save_filter, remove_filter; and their stored form."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.errors import Refusal, TooLarge
from windlass.core.filters.saved_filter import FILTERS_MAX, PAGES, SavedFilter
from windlass.store.commands.command import Command, parse_reply, reply_parser

HOME = 0  # the partition that holds them


class _Definition(msgspec.Struct, frozen=True, array_like=True):
    """Stored fields of a filter, besides its name. Fields may be added at the end."""

    page: str
    fields: dict[str, str]


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(_Definition).decode


def filters() -> Command[list[SavedFilter]]:
    return Command("filters", [], _read_filters, partition=HOME)


def save_filter(saved: SavedFilter, former: str) -> Command[int | Refusal]:
    def read(reply: Any) -> int | Refusal:
        if reply == TooLarge.code.encode():
            return TooLarge(f"There are {FILTERS_MAX} saved filters already; remove unused filters.")
        return parse_reply(reply, int)

    definition = _encode(_Definition(saved.page, saved.fields))
    return Command("save_filter", [saved.name, definition, former, FILTERS_MAX], read, partition=HOME)


def remove_filter(name: str) -> Command[int | Refusal]:
    return Command("remove_filter", [name], reply_parser(int), partition=HOME)


def _read_filters(flat: list[bytes]) -> list[SavedFilter]:
    found = [_read_filter(flat[at].decode(), flat[at + 1]) for at in range(0, len(flat), 2)]
    return sorted((saved for saved in found if saved is not None), key=lambda saved: saved.name.casefold())


def _read_filter(name: str, stored: bytes) -> SavedFilter | None:
    """Read a filter. None: a later version wrote it; it must not hide the others."""
    try:
        kept = _decode(stored)
    except msgspec.MsgspecError:
        return None
    if kept.page not in PAGES:
        return None
    fields = {field: kept.fields[field] for field in PAGES[kept.page] if field in kept.fields}
    return SavedFilter(name=name, page=kept.page, fields=fields)
