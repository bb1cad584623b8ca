"""Import target of an application, for child processes: its module and attribute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.errors import BadInput

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass


def find_target(app: Windlass) -> str:
    """Find the module and attribute of an app among the loaded modules."""
    for module_name, module in sorted(sys.modules.items()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                return f"{_importable(module_name)}:{name}"
    raise BadInput("Tasks with pool='process' need an app in a module-level variable, or target='module:app'.")


def _importable(module_name: str) -> str:
    """Return an importable module name.

    A program that was started as a file is importable by the file's name, because its directory is on the path.
    """
    if module_name != "__main__":
        return module_name
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return spec.name if spec is not None else Path(main.__file__ or "").stem
