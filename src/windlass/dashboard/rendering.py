"""Template rendering. Every text is escaped, unknown names are errors, and a strict policy allows only our scripts."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from windlass import __version__
from windlass.core.ids import format_id
from windlass.core.text.control_characters import escape_control
from windlass.web.listener.messages import Response

from .assets import ASSETS
from .page_context import PageContext
from .views import charts, formats, gantt, icons, timeline, values
from .views.flow import steps as flow_steps

HTML = "text/html; charset=utf-8"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),  # with no-referrer, browsers would send no origin either
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


def _visible(value: Any) -> Any:
    """Show control characters of a text as escapes. Markup is left as it is: its creators have escaped it already, and
    the filter `exact` creates some for the values of forms, which must come back unchanged."""
    return escape_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def environment() -> jinja2.Environment:
    created = jinja2.Environment(
        loader=jinja2.PackageLoader("windlass.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_visible,
    )
    created.filters |= {**formats.FILTERS, "snippet": values.snippet, "exact": escape}
    created.globals |= {
        "icon": icons.icon,
        "charts": charts,
        "timeline": timeline,
        "gantt": gantt,
        "flow_steps": flow_steps,
        "key_of": format_id,
        "version": __version__,
        "NAVIGATION": icons.NAVIGATION,
    }
    return created


def prepare() -> None:
    """Compile all templates and load the assets, before the first request needs them. Takes some tenths of a second."""
    for template in environment().list_templates():
        environment().get_template(template)
    _ = ASSETS.version


def render(template: str, view: Any, page: PageContext[Any]) -> bytes:
    return environment().get_template(template).render(view=view, page=page).encode(errors="replace")


def render_page(template: str, view: Any, page: PageContext[Any], *, status: int = 200) -> Response:
    return Response(status, render(template, view, page), (*HEADERS, *page.cookies_to_set()), HTML)
