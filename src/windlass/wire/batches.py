"""Requests about many items, and their results: an answer or a problem for each item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.errors import Refusal

from .problems import Problem, problem

A = TypeVar("A")
T = TypeVar("T")
ITEMS_MAX = 1000


class Items(msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[T], Meta(max_length=ITEMS_MAX)]


class Outcome(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """Of one item: its answer, or why it was refused; the others have nothing to do with it."""

    ok: T | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class Results(msgspec.Struct, Generic[T], frozen=True):
    """In the order of the items."""

    results: list[Outcome[T]]


def results(answers: Sequence[A | Refusal], shaped: Callable[[A], T]) -> Results[T]:
    return Results(
        [Outcome(error=problem(one)) if isinstance(one, Refusal) else Outcome(ok=shaped(one)) for one in answers]
    )
