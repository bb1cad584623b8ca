"""All settings, each read in one place: a command-line option, then the environment, then windlass.toml, then the
default. What came from where can be shown."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .core.errors import BadSetting
from .core.job import Durability

FILE_NAME = "windlass.toml"
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str = ""  # empty: the embedded engine
    data_dir: str = ""  # of the embedded engine; empty: the user's data directory
    namespace: str = "wl"  # prefix of all keys
    durability: Durability | None = None  # None: what the engine gives by itself
    allow_eviction: bool = False  # accept an engine that may throw jobs away


class Origin(NamedTuple):
    """A value and where it came from."""

    name: str
    value: Any
    source: str


def load(
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> tuple[Settings, list[Origin]]:
    """Settings and the origin of each. Options that are None count as not given."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    env = os.environ if environment is None else environment
    file = (directory or Path.cwd()) / FILE_NAME
    from_file = _read_file(file)
    origins = []
    for name in Settings.__struct_fields__:
        variable = f"WINDLASS_{name.upper()}"
        if name in given:
            origins.append(Origin(name, given[name], "option"))
        elif variable in env:
            origins.append(Origin(name, _from_text(name, env[variable]), variable))
        elif name in from_file:
            origins.append(Origin(name, from_file[name], FILE_NAME))
        else:
            origins.append(Origin(name, getattr(Settings(), name), "default"))
    return _convert(origins), origins


def _read_file(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        content = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"{FILE_NAME} cannot be read: {error}.") from error
    unknown = sorted(set(content) - set(Settings.__struct_fields__))
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise BadSetting(f"{FILE_NAME} has no setting {unknown[0]!r}; it may have {known}.")
    return content


def _from_text(name: str, text: str) -> Any:
    if name != "allow_eviction":
        return text or None if name == "durability" else text
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise BadSetting(f"WINDLASS_{name.upper()} must be 1, true, yes or on (or 0, false, no, off), not {text!r}.")


def _convert(origins: list[Origin]) -> Settings:
    for origin in origins:
        try:
            msgspec.convert({origin.name: origin.value}, Settings)
        except msgspec.ValidationError as error:
            raise BadSetting(f"The setting {origin.name} (from {origin.source}) is wrong: {error}.") from error
    return Settings(**{origin.name: origin.value for origin in origins})
