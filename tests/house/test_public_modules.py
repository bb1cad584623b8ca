"""Public modules: `windlass.engine_api`, and former module paths from documents."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import pytest

from windlass import aliases, engine_api

# Every import of the engine's names that a document of an earlier version showed.
DOCUMENTED = {
    "windlass.core.access": ("NewToken", "Role", "parse_token"),
    "windlass.core.audit": ("AuditEntry",),
    "windlass.core.job": ("Blob", "Callback", "Cap", "NewJob"),
    "windlass.core.limit": ("Limit", "Matcher"),
    "windlass.core.log": ("Log", "LogLine"),
    "windlass.core.requests": ("Edit", "Finish", "Take", "Update"),
    "windlass.core.schedule": ("Schedule",),
    "windlass.server": ("build_store",),
    "windlass.service": ("Service",),
    "windlass.settings": ("Settings",),
}


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in DOCUMENTED.items() for name in names])
def test_a_documented_path_has_the_name_of_the_public_module(path: str, name: str) -> None:
    assert getattr(importlib.import_module(path), name) is getattr(engine_api, name)


def test_documented_modules_are_the_same_objects() -> None:
    core = importlib.import_module("windlass.core")
    for name in ("cron", "repeat"):
        assert importlib.import_module(f"windlass.core.{name}") is getattr(engine_api, name)
        assert getattr(core, name) is getattr(engine_api, name)


def test_the_former_name_of_the_server_context_works() -> None:
    assert importlib.import_module("windlass.server").serving is engine_api.open_server


def test_former_names_of_requests_are_aliases() -> None:
    former = importlib.import_module("windlass.core.requests")
    current = importlib.import_module("windlass.core.operations")
    for old, new in aliases.FORMER_NAMES["windlass.core.requests"].items():
        assert getattr(former, old) is getattr(current, new)


@pytest.mark.parametrize("former", sorted(aliases.FORMER_MODULES))
def test_every_alias_leads_to_a_module(former: str) -> None:
    assert importlib.util.find_spec(former) is not None


def test_an_alias_keeps_the_spec_of_its_module() -> None:
    module = importlib.import_module("windlass.core.schedule")
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__ == "windlass.core.scheduling.schedule"


def test_every_public_name_resolves() -> None:
    assert [name for name in engine_api.__all__ if getattr(engine_api, name, None) is None] == []
    with pytest.raises(AttributeError):
        engine_api.nothing  # noqa: B018


def test_building_a_store_loads_no_front_end() -> None:
    program = (
        "import sys; from windlass.engine_api import Service, Settings, build_store; print(*sorted("
        "name for name in sys.modules if name.startswith(('windlass.server', 'windlass.web', 'windlass.dialects', "
        "'windlass.dashboard', 'windlass.sdk'))))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
