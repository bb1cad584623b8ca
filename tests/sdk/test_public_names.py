"""Public names of `windlass`, and the cost of its import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import windlass

PACKAGE = Path(windlass.__file__).parent


@pytest.mark.parametrize("name", windlass.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(windlass, name) is not None
    assert name in dir(windlass)


def test_the_list_is_complete_and_in_order() -> None:
    """The names are the same for type checkers, for the loader and in the list."""
    assert windlass.__all__ == sorted(set(windlass.__all__))
    assert sorted(windlass._HOMES) == windlass.__all__
    assert imported_for_type_checkers() == windlass._HOMES


def imported_for_type_checkers() -> dict[str, str]:
    (block,) = [node for node in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="Windlas"):
        windlass.Windlas  # noqa: B018
    with pytest.raises(ImportError):
        from windlass import Windlas  # noqa: F401


def test_the_import_alone_loads_nothing_but_aliases() -> None:
    code = "import sys, windlass; print(*sorted({n for n in sys.modules if n.startswith(('windlass', 'asyncio'))}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["windlass", "windlass.aliases"]  # the table of former module paths


def test_it_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_an_application_on_an_engine_loads_no_front_end() -> None:
    code = "import sys\nfrom windlass import Windlass\nWindlass().task(print)\nprint(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "windlass.sdk.app" in loaded
    assert not [
        name for name in loaded if name.startswith(("windlass.web", "windlass.dialects", "httptools", "aiohttp"))
    ]
