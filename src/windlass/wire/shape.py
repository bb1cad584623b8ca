"""Base classes of the shapes, batches of items, and the names under which shapes are published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.errors import Refusal

from .problems import Problem, problem_of

A = TypeVar("A")
C = TypeVar("C", bound=type[Any])
T = TypeVar("T")
ITEMS_MAX = 1000
COMPONENT_NAMES: dict[str, str] = {}  # by class name; other classes are published under their own names


def component_name(name: str) -> Callable[[C], C]:
    """Publish a class in the OpenAPI document under another name than its own.

    Component names are public and never change, so a renamed class keeps its former name here. The document drops the
    suffix `Shape` of all names."""

    def register(shape: C) -> C:
        COMPONENT_NAMES[shape.__name__] = name
        return shape

    return register


class RequestShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of request bodies and queries. Unknown fields are refused."""


class ResponseShape(msgspec.Struct, frozen=True, kw_only=True):
    """Base of response bodies."""


R = TypeVar("R", bound=ResponseShape)


def to_shape(found: msgspec.Struct, shape: type[R]) -> R:
    """Convert a struct of the core to a shape with the same field names."""
    return msgspec.convert(found, shape, from_attributes=True)


class Items(msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[T], Meta(max_length=ITEMS_MAX)]


@component_name("Outcome")
class ItemResult(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """The result of one item: its answer, or the reason for its refusal. Other items are not affected."""

    ok: T | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class Results(msgspec.Struct, Generic[T], frozen=True):
    """The results, in the order of the items."""

    results: list[ItemResult[T]]


def to_results(answers: Sequence[A | Refusal], convert: Callable[[A], T]) -> Results[T]:
    """Convert the answers to a batch. Refusals become problems."""
    return Results(
        [
            ItemResult(error=problem_of(answer)) if isinstance(answer, Refusal) else ItemResult(ok=convert(answer))
            for answer in answers
        ]
    )
