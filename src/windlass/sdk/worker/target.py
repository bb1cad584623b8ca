"""Where a child process finds the application: the name of its module, and of it in there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.errors import BadInput

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass


def find_target(app: Windlass) -> str:
    """Looks through the modules that are loaded."""
    for module_name, module in sorted(sys.modules.items()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                return f"{_importable(module_name)}:{name}"
    raise BadInput("Tasks with pool='process' need an app that is a variable of a module, or target='module:app'.")


def _importable(module_name: str) -> str:
    """A program that was started as a file is found by its file's name: its directory is on the path."""
    if module_name != "__main__":
        return module_name
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return spec.name if spec is not None else Path(main.__file__ or "").stem
