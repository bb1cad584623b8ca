"""Templates to bytes. Every text is escaped, an unknown name is an error, and no page may run what is not ours."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from windlass import __version__
from windlass.core.text.control_characters import escape_control
from windlass.web.listener.messages import Response

from .assets import ASSETS
from .page_context import PageContext
from .views import charts, figures, icons, timeline, values

HTML = "text/html; charset=utf-8"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),  # without a referrer a browser names no origin either
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


def _visible(value: Any) -> Any:
    """Show control characters of a text as escapes. Markup is left as it is: its makers have done so, and `exact` makes
    some for the values of forms, which must come back as they are stored."""
    return escape_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("windlass.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_visible,
    )
    made.filters |= {**figures.FILTERS, "snippet": values.snippet, "exact": escape}
    made.globals |= {
        "icon": icons.icon,
        "charts": charts,
        "timeline": timeline,
        "version": __version__,
        "NAVIGATION": icons.NAVIGATION,
    }
    return made


def prepare() -> None:
    """All that is made once, before somebody waits for it: some tenths of a second."""
    for template in environment().list_templates():
        environment().get_template(template)
    _ = ASSETS.version


def render(template: str, view: Any, page: PageContext[Any]) -> bytes:
    return environment().get_template(template).render(view=view, page=page).encode(errors="replace")


def render_page(template: str, view: Any, page: PageContext[Any], *, status: int = 200) -> Response:
    return Response(status, render(template, view, page), (*HEADERS, *page.cookies_to_set()), HTML)
