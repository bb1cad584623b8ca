"""Forms that are made from the declared type of a signal."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from windlass.core.durable import SCHEMA_MAX
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec
from windlass.dashboard.forms.schema_form import INPUTS_MAX, SchemaForm, make_form, read_inputs
from windlass.sdk.durable.schemas import signal_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Everything(msgspec.Struct, tag=True):
    by: str
    is_granted: bool
    colour: Colour
    comment: str | None
    share: float = 1.5
    level: Level | None = None
    word: Literal["x", "y"] | None = None
    day: date | None = None
    pieces: Annotated[int, msgspec.Meta(ge=1, le=9, title="Number of pieces", description="How many.")] = 1


class Review(pydantic.BaseModel):
    stars: int = pydantic.Field(gt=0, lt=6)
    kind: Literal["review"]
    text: str = pydantic.Field(default="", min_length=2, max_length=5)
    colour: Colour = Colour.RED
    mark: Literal["a", "b"] | None = None


@dataclass
class Lines:
    rows: list[int]


def form_of(kind: Any) -> SchemaForm:
    found = make_form(signal_schema(kind))
    assert found is not None
    return found


def form_from(schema: Any) -> SchemaForm | None:
    return make_form(Blob(msgspec.json.encode(schema)))


def test_each_property_has_an_input() -> None:
    form = form_of(Everything)
    assert form.title == "Everything"
    assert [(shown.label, shown.kind, shown.type, shown.needs_text) for shown in form.inputs] == [
        ("Type", "choice", "text", True),
        ("By", "text", "text", True),
        ("Is granted", "choice", "text", True),
        ("Colour", "choice", "text", True),
        ("Comment", "text", "text", False),
        ("Share", "number", "number", False),
        ("Level", "choice", "text", False),
        ("Word", "choice", "text", False),
        ("Day", "text", "date", False),
        ("Number of pieces", "integer", "number", False),
    ]
    assert form.inputs[-1].notes == ("How many.", "Default: 1.")
    assert [choice.label for choice in form.inputs[2].choices] == ["Yes", "No"]


def test_typed_texts_become_a_value_of_the_type() -> None:
    form = form_of(Everything)
    typed = ['"Everything"', "ada", "true", '"blue"', "", "", "2", '"y"', "2026-11-18", " 7 "]
    found = msgspec.json.decode(form.read(typed).data, type=Everything)
    assert found == Everything("ada", True, Colour.BLUE, None, 1.5, Level.HIGH, "y", date(2026, 11, 18), 7)


def test_an_empty_input_leaves_its_property_out_or_is_null() -> None:
    typed = ['"Everything"', "ada", "false", '"red"', "", "", "", "", "", ""]
    assert msgspec.json.decode(form_of(Everything).read(typed).data) == {
        "type": "Everything", "by": "ada", "is_granted": False, "colour": "red", "comment": None,
    }  # fmt: skip


def test_each_wrong_text_has_an_error() -> None:
    form = form_of(Everything)
    typed = ['"Other"', "", "True", "red", "", "much", "3", '"z"', "", "10"]
    assert form.errors(typed) == {
        0: "Choose one of the values.",
        1: "A value is required.",
        2: "Choose one of the values.",
        3: "Choose one of the values.",
        5: "Enter a number, for example 12.5.",
        6: "Choose one of the values.",
        7: "Choose one of the values.",
        9: "The number must be at most 9.",
    }
    with pytest.raises(ValueError, match="Type: Choose one"):
        form.read(typed)


def test_models_of_pydantic_have_a_form() -> None:
    form = form_of(Review)
    typed = ["5", '"review"', "good", "", '"b"']
    found = Review.model_validate_json(form.read(typed).data)
    assert (found.stars, found.text, found.colour, found.mark) == (5, "good", Colour.RED, "b")
    assert form.inputs[3].empty_label == "Default: red"
    assert form.errors(["0", '"review"', "g", "", ""]) == {
        0: "The number must be more than 0.",
        2: "The text needs at least 2 characters.",
    }
    assert form.errors(["6", '"review"', "g" * 6, "", ""]) == {
        0: "The number must be less than 6.",
        2: "The text may have at most 5 characters.",
    }


@pytest.mark.parametrize(
    ("kind", "typed", "value", "has_buttons"),
    [
        (bool, "false", b"false", True),
        (str, " it is <b>fine</b> ", b'" it is <b>fine</b> "', False),
        (str | None, "", b"null", False),
        (int, "12345678901234567890123", b"12345678901234567890123", False),
        (int, "+5", b"5", False),
        (float, "-.5e3", b"-500.0", False),
        (float, "5", b"5", False),
        (Colour, '"red"', b'"red"', True),
        (Level | None, "", b"null", False),
        (Literal[1, "1"], '"1"', b'"1"', True),
        (Literal["a", "b", "c", "d", "e"], '"e"', b'"e"', False),
    ],
)
def test_a_plain_type_has_one_input(kind: Any, typed: str, value: bytes, has_buttons: bool) -> None:
    form = form_of(kind)
    assert (form.read([typed]).data, form.has_buttons) == (value, has_buttons)
    assert (len(form.inputs), form.is_object, form.inputs[0].label) == (1, False, "")


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        *((int, text) for text in ("", "1.0", "1_000", "٣", "0x1", "1e3", "9" * 301)),
        *((float, text) for text in ("", "1,5", "nan", "inf", "1e999", ".", "e5", "1_0")),
        (bool, "yes"),
        (str, ""),
    ],
)
def test_other_texts_are_refused(kind: Any, typed: str) -> None:
    with pytest.raises(ValueError, match=r"required|Enter a|Choose"):
        form_of(kind).read([typed])


@pytest.mark.parametrize("kind", [Lines, Lines | None, list[int], dict[str, int], int | str, bytes, Everything | None])
def test_other_types_have_no_inputs(kind: Any) -> None:
    form = form_of(kind)
    assert (form.inputs, form.has_buttons) == ((), False)


def many(number: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(number)}}


def test_the_number_of_inputs_is_bounded() -> None:
    for number, inputs in ((0, 0), (INPUTS_MAX, INPUTS_MAX), (INPUTS_MAX + 1, 0)):
        form = form_from(many(number))
        assert form is not None
        assert len(form.inputs) == inputs


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/$defs/none"},
        {"$ref": 5, "$defs": []},
        {"anyOf": "text"},
        {"anyOf": [{"type": "null"}, {"type": "null"}]},
        {"enum": []},
        {"enum": [[1]]},
        {"enum": list(range(101))},
        {"type": ["string", "null"]},
        {"type": {}},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 5}, "required": 7},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"title": 5, "type": "array"},
    ],
)
def test_a_strange_schema_has_no_inputs(schema: Any) -> None:
    form = form_from(schema)
    assert form is None or form.inputs == ()


@pytest.mark.parametrize("schema", [b"", b"5", b"[]", b"{}", b"{", b"\xff", b"[" * SCHEMA_MAX, b'{"enum":[1e999]}'])
def test_a_text_that_is_no_schema_has_no_form(schema: bytes) -> None:
    assert make_form(Blob(schema)) is None
    assert make_form(Blob(schema, Codec.RAW)) is None


@pytest.mark.parametrize(
    "described", [{"minLength": "5", "maxLength": None}, {"title": ["x"], "description": {}}, {"default": [1]}]
)
def test_strange_descriptions_of_a_property_do_no_harm(described: dict[str, Any]) -> None:
    form = form_from({"type": "object", "properties": {"a_b": {"type": "string"} | described}})
    assert form is not None
    assert (form.inputs[0].label, form.read(["x"]).data) == ("A b", b'{"a_b":"x"}')


def test_a_schema_may_be_message_pack() -> None:
    form = make_form(Blob(msgspec.msgpack.encode({"type": "boolean"}), Codec.MSGPACK))
    assert form is not None
    assert form.schema == '{"type":"boolean"}'


@pytest.mark.parametrize(
    ("schema", "typed"), [("", ["x"]), ("{", ["x"]), ('{"type":"array"}', ["x"]), ('{"type":"string"}', ["x", "y"])]
)
def test_a_form_that_does_not_fit_is_refused(schema: str, typed: list[str]) -> None:
    with pytest.raises(BadInput, match="Reload the page"):
        read_inputs(schema, typed)
