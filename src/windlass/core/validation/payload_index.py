"""Checks of indexed payload fields and of conditions on them."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.payload_index import CONDITIONS_MAX, INDEX_FIELDS_MAX, INDEX_PATH_MAX, WHERE_MAX, parse_condition

from .values import check_free_text, check_new_name


def check_index(paths: Any) -> None:
    if type(paths) is not tuple:
        raise BadInput("index must be a tuple of paths of payload fields.")
    if len(paths) > INDEX_FIELDS_MAX:
        raise TooLarge(f"index may have {INDEX_FIELDS_MAX} fields, not {len(paths)}.")
    for path in paths:
        check_new_name("a field of index", path, INDEX_PATH_MAX)
        if "=" in path or "#" in path or not all(path.split(".")):
            raise BadInput(
                f"index must have names of payload fields, with dots for fields inside of fields, as customer.email; "
                f"not {path!r}."
            )


def check_where(where: Any) -> None:
    if type(where) is not tuple:
        raise BadInput('where must be a tuple of conditions, as ("order_id=4711",).')
    if len(where) > CONDITIONS_MAX:
        raise TooLarge(f"where may have {CONDITIONS_MAX} conditions, not {len(where)}.")
    for condition in where:
        check_free_text("where", condition, WHERE_MAX)
        parse_condition(condition)
