"""Application loader: imports the application that `module:attribute` names."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType
from typing import Any

from windlass.core.errors import BadSetting, WindlassError

from .app import Windlass

DEFAULT_ATTRIBUTE = "app"


class ImportFailed(WindlassError):
    """The application's code raised during import. The message is its traceback without Windlass's own frames."""

    code = "import_failed"


def load_app(target: str) -> Windlass:
    """Return the app that a target such as `shop.tasks:app` names.

    Without an attribute, this is `app` or the only app of the module.
    """
    module_name, _, attribute = target.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise BadSetting(f"{target!r} is a file; name its module: {dotted}:{attribute or DEFAULT_ATTRIBUTE}.")
    module = _import_module(module_name, target)
    found = _get_attribute(module, attribute) if attribute else _find_default(module)
    if isinstance(found, Windlass):
        return found
    if attribute and found is not None:
        problem = f"{target!r} is of type {type(found).__name__}, not a Windlass app"
    else:
        problem = f"The module {module_name!r} has no {attribute or DEFAULT_ATTRIBUTE!r}"
    raise BadSetting(f"{problem}; {_describe_apps(module, module_name)}")


def _import_module(module_name: str, target: str) -> ModuleType:
    if not module_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise BadSetting(f"{target!r} is not the name of an app: write MODULE:APP, e.g. shop.tasks:app.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _make_import_failure(module_name, error) from error
        raise BadSetting(
            f"There is no module {error.name!r} in {os.getcwd()} or on the Python path; write MODULE:APP, "
            "and start the command where `import MODULE` works."
        ) from error
    except Exception as error:
        raise _make_import_failure(module_name, error) from error


def _make_import_failure(module_name: str, error: BaseException) -> ImportFailed:
    text = "".join(traceback.format_exception(error.with_traceback(_user_traceback(error))))
    return ImportFailed(f"{module_name} cannot be imported.\n{text.rstrip()}")


def _user_traceback(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and _is_import_machinery(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_import_machinery(filename: str) -> bool:
    return filename in (__file__, importlib.__file__) or filename.startswith("<frozen importlib")


def _get_attribute(module: ModuleType, attribute: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return found


def _find_default(module: ModuleType) -> Any:
    named = getattr(module, DEFAULT_ATTRIBUTE, None)
    apps = _find_apps(module)
    return apps[0][1] if not isinstance(named, Windlass) and len(apps) == 1 else named


def _find_apps(module: ModuleType) -> list[tuple[str, Windlass]]:
    return [(name, value) for name, value in vars(module).items() if isinstance(value, Windlass)]


def _describe_apps(module: ModuleType, module_name: str) -> str:
    names = [f"{module_name}:{name}" for name, _ in _find_apps(module)]
    return f"it has {', '.join(names)}." if names else "make one there: `app = Windlass()`."
