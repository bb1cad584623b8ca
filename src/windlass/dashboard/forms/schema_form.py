"""Forms made from the JSON Schema of a signal: an input for each property, and its text back as JSON.

The schema comes from the code of a task, so its names and values are unknown texts. Schemas with other types than
texts, numbers, booleans and enums, or with many properties, have no inputs: their value is typed as JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from windlass.core.errors import BadInput
from windlass.core.job import Blob
from windlass.core.text.codecs import as_json
from windlass.core.text.humanize import shorten

INPUTS_MAX = 30
CHOICES_MAX = 100
BUTTONS_MAX = 4  # choices of a value that is no object; more of them need a select
REFS_MAX = 5  # references that lead to references
TEXT_SHOWN = 300  # characters of a title or a description
_DEFS = "#/$defs/"
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?")
_INPUT_TYPES = {"date": "date", "email": "email", "uri": "url"}  # by format
_BOUNDS = {"minimum": "at_least", "maximum": "at_most", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}
_WORDS = {True: "Yes", False: "No", None: "none"}

Kind: TypeAlias = Literal["text", "integer", "number", "choice"]


class Choice(msgspec.Struct, frozen=True):
    """A value to choose. Its JSON is the value of the option, so that 1 and "1" are different."""

    json: str
    label: str


class SchemaInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a form."""

    name: str  # of the property; empty: the value is no object
    label: str = ""
    notes: tuple[str, ...] = ()
    kind: Kind
    type: str = "text"  # of the element
    is_required: bool = True  # False: an empty input leaves the property out
    is_nullable: bool = False
    default: str = ""
    choices: tuple[Choice, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    length_min: int = 0
    length_max: int | None = None

    @property
    def needs_text(self) -> bool:
        return self.is_required and not self.is_nullable

    @property
    def empty_label(self) -> str:
        """Label of the empty choice."""
        return "Choose" if self.needs_text else f"Default: {self.default}" if self.default else "None"

    def read(self, typed: str) -> Any:
        """Return the typed value. UNSET: leave the property out. Raises ValueError with a sentence."""
        if not (typed if self.kind == "text" else typed.strip()):
            return self._read_empty()
        if self.kind == "choice":
            return self._read_choice(typed)
        return self._read_text(typed) if self.kind == "text" else self._read_number(typed.strip())

    def _read_empty(self) -> UnsetType | None:
        if self.needs_text:
            raise ValueError("A value is required.")
        return None if self.is_required else UNSET

    def _read_choice(self, typed: str) -> Any:
        if typed not in {choice.json for choice in self.choices}:
            raise ValueError("Choose one of the values.")
        return msgspec.Raw(typed.encode())

    def _read_text(self, typed: str) -> str:
        if len(typed) < self.length_min:
            raise ValueError(f"The text needs at least {self.length_min} characters.")
        if self.length_max is not None and len(typed) > self.length_max:
            raise ValueError(f"The text may have at most {self.length_max} characters.")
        return typed

    def _read_number(self, typed: str) -> float:
        if self.kind == "integer" and not _INTEGER.fullmatch(typed):
            raise ValueError("Enter a whole number, for example 12.")
        if not _NUMBER.fullmatch(typed) or not math.isfinite(float(typed)):
            raise ValueError("Enter a number, for example 12.5.")
        value = int(typed) if _INTEGER.fullmatch(typed) else float(typed)
        self._check_bounds(value)
        return value

    def _check_bounds(self, value: float) -> None:
        for is_wrong, words, bound in (
            (self.at_least is not None and value < self.at_least, "at least", self.at_least),
            (self.at_most is not None and value > self.at_most, "at most", self.at_most),
            (self.above is not None and value <= self.above, "more than", self.above),
            (self.below is not None and value >= self.below, "less than", self.below),
        ):
            if is_wrong:
                raise ValueError(f"The number must be {words} {bound}.")


class SchemaForm(msgspec.Struct, frozen=True, kw_only=True):
    """A form for values of a type. Without inputs, the value is typed as JSON."""

    schema: str  # sent with the form, which can be read then although the job waits no longer
    title: str = ""
    inputs: tuple[SchemaInput, ...] = ()
    is_object: bool = True

    @property
    def has_buttons(self) -> bool:
        """One button for each choice."""
        if self.is_object or not self.inputs:
            return False
        (only,) = self.inputs
        return only.needs_text and 0 < len(only.choices) <= BUTTONS_MAX

    def errors(self, typed: Sequence[str]) -> dict[int, str]:
        """Return what is wrong, by the index of the input."""
        found: dict[int, str] = {}
        for at, (shown, text) in enumerate(zip(self.inputs, typed, strict=False)):
            try:
                shown.read(text)
            except ValueError as error:
                found[at] = str(error)
        return found

    def read(self, typed: Sequence[str]) -> Blob:
        """Return the typed values as JSON. Raises ValueError for the first that is wrong."""
        if not self.inputs or len(typed) != len(self.inputs):
            raise ValueError("The form does not fit its type. Reload the page.")
        errors = self.errors(typed)
        if errors:
            first = min(errors)
            label = self.inputs[first].label
            raise ValueError(f"{label}: {errors[first]}" if label else errors[first])
        values = [shown.read(text) for shown, text in zip(self.inputs, typed, strict=True)]
        if not self.is_object:
            return Blob(_to_json(values[0]))
        names = [shown.name for shown in self.inputs]
        return Blob(_to_json({name: value for name, value in zip(names, values, strict=True) if value is not UNSET}))


def _to_json(value: Any) -> bytes:
    """Encode a value. msgspec refuses integers beyond 64 bits."""
    if isinstance(value, dict):
        return msgspec.json.encode({name: msgspec.Raw(_to_json(part)) for name, part in value.items()})
    return str(value).encode() if type(value) is int else msgspec.json.encode(value)


def make_form(schema: Blob | None) -> SchemaForm | None:
    """Return the form for a schema. None: the type is not known."""
    text = None if schema is None else as_json(schema)
    if text is None:
        return None
    try:
        return _Reader(msgspec.json.decode(text)).form(bytes(text).decode())
    except (ValueError, OverflowError, RecursionError):  # it is no JSON, or has numbers that JSON cannot express
        return None


def read_inputs(schema: str, typed: Sequence[str]) -> Blob:
    """Return the answer of a form that was sent with its schema."""
    form = make_form(Blob(schema.encode()))
    try:
        if form is None:
            raise ValueError("The form has no type. Reload the page.")
        return form.read(typed)
    except ValueError as error:
        raise BadInput(str(error)) from error


class _Reader:
    """Reads a schema. A type without an input raises _NoInput."""

    def __init__(self, schema: Any) -> None:
        self._root = schema if isinstance(schema, dict) else {}
        self._defs = _dict(self._root.get("$defs"))

    def form(self, text: str) -> SchemaForm | None:
        if not self._root:
            return None
        found, is_nullable = self._resolve(self._root)
        title = _words(self._root.get("title")) or _words(found.get("title"))
        is_object = found.get("type") == "object"
        try:
            inputs = self._properties(found) if is_object and not is_nullable else (self._input(self._root),)
        except _NoInput:
            return SchemaForm(schema=text, title=title)
        return SchemaForm(schema=text, title=title, inputs=inputs, is_object=is_object)

    def _resolve(self, node: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Follow references and `X | None`. Returns the type, and whether null is allowed."""
        is_nullable = False
        for _ in range(REFS_MAX):
            ref, union = node.get("$ref"), node.get("anyOf")
            if isinstance(ref, str) and ref.startswith(_DEFS):
                node = _dict(self._defs.get(ref.removeprefix(_DEFS)))
            elif isinstance(union, list) and {"type": "null"} in union and len(union) == 2:
                is_nullable, node = True, _dict(next((part for part in union if part != {"type": "null"}), None))
            else:
                break
        return node, is_nullable

    def _properties(self, found: dict[str, Any]) -> tuple[SchemaInput, ...]:
        properties, required = _dict(found.get("properties")), found.get("required")
        if not 0 < len(properties) <= INPUTS_MAX:
            raise _NoInput
        names = required if isinstance(required, list) else []
        return tuple(self._input(_dict(node), name, name in names) for name, node in properties.items())

    def _input(self, node: dict[str, Any], name: str = "", is_required: bool = True) -> SchemaInput:
        found, is_nullable = self._resolve(node)
        fields = _fields_of(found)
        default = _default(node)
        description = _words(node.get("description")) or (_words(found.get("description")) if name else "")
        return SchemaInput(
            name=name,
            label=_words(node.get("title")) or _label_of(name) if name else "",
            notes=tuple(filter(None, (description, _default_note(default, fields)))),
            is_required=is_required,
            is_nullable=is_nullable or None in (_enum_of(found) or ()),
            default=default,
            **fields,
        )


class _NoInput(Exception):
    """A type for which there is no input."""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(value: Any) -> str:
    return shorten(" ".join(value.split()), TEXT_SHOWN) if isinstance(value, str) else ""


def _default_note(default: str, fields: dict[str, Any]) -> str:
    """Return the default in a sentence. A select names it in its empty choice."""
    return f"Default: {default}." if default and fields["kind"] != "choice" else ""


def _label_of(name: str) -> str:
    label = _words(name.replace("_", " ")) or name[:TEXT_SHOWN]
    return label[:1].upper() + label[1:]


def _fields_of(found: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the input that depend on its type."""
    values = _enum_of(found)
    if values is not None:
        return {"kind": "choice", "choices": tuple(_choice(value) for value in values if value is not None)}
    kind = found.get("type")
    if kind == "string" and "contentEncoding" not in found:
        return {"kind": "text", **_text_bounds(found)}
    if kind in ("integer", "number"):
        return {"kind": kind, "type": "number", **_bounds(found)}
    raise _NoInput


def _enum_of(found: dict[str, Any]) -> list[Any] | None:
    """Return the values of an enum. None: it is none."""
    if found.get("type") == "boolean":
        return [True, False]
    values = [found["const"]] if "const" in found else found.get("enum")
    if not isinstance(values, list):
        return None
    if not 0 < len(values) <= CHOICES_MAX or not all(_is_scalar(value) for value in values):
        raise _NoInput
    return values


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _choice(value: Any) -> Choice:
    return Choice(_to_json(value).decode(), _label(value))


def _label(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    return shorten(str(value), TEXT_SHOWN)


def _default(node: dict[str, Any]) -> str:
    default = node.get("default")
    return "" if default is None or not _is_scalar(default) else _label(default)


def _text_bounds(found: dict[str, Any]) -> dict[str, Any]:
    least, most = found.get("minLength"), found.get("maxLength")
    return {
        "type": _INPUT_TYPES.get(str(found.get("format")), "text"),
        "length_min": least if type(least) is int else 0,
        "length_max": most if type(most) is int else None,
    }


def _bounds(found: dict[str, Any]) -> dict[str, Any]:
    bounds = {field: found.get(key) for key, field in _BOUNDS.items()}
    return {field: bound for field, bound in bounds.items() if type(bound) in (int, float)}
