"""Save, rename and remove the filters of a page."""

from __future__ import annotations

from urllib.parse import parse_qsl

from windlass.core.errors import BadInput, UnknownFilter
from windlass.core.filters.saved_filter import SavedFilter
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form
from windlass.dashboard.views.saved_filters import link_of
from windlass.web.app.router import PRODUCERS
from windlass.web.app.saved_filters import remove_visible_filter, save_visible_filter, visible_filters

routes = DashboardRoutes()


class SaveFilterForm(Form, frozen=True, kw_only=True):
    name: str = ""
    page: str = ""
    filters: str = ""  # as in the address of the page


class RenameFilterForm(Form, frozen=True, kw_only=True):
    name: str = ""
    former: str = ""


class RemoveFilterForm(Form, frozen=True, kw_only=True):
    name: str = ""


@routes.action("save-filter", SaveFilterForm, roles=PRODUCERS)
async def save_filter(page: PageContext[None], form: SaveFilterForm) -> ActionResult:
    """Save the filters of a page under a name, for all users."""
    saved = SavedFilter(name=form.name.strip(), page=form.page, fields=dict(parse_qsl(form.filters)))
    if any(known.name == saved.name for known in await visible_filters(page.context)):
        raise BadInput(f"A filter named {saved.name!r} is saved already: use another name, or remove it first.")
    await save_visible_filter(page.context, saved)
    return ActionResult(f"The filter is saved as {saved.name}.", to=link_of(page, saved))


@routes.action("rename-filter", RenameFilterForm, roles=PRODUCERS)
async def rename_filter(page: PageContext[None], form: RenameFilterForm) -> ActionResult:
    """Rename a saved filter."""
    name = form.name.strip()
    for known in await visible_filters(page.context):
        if known.name == form.former:
            renamed = SavedFilter(name=name, page=known.page, fields=known.fields)
            await save_visible_filter(page.context, renamed, form.former)
            return ActionResult(f"{form.former} is now named {name}.", to=link_of(page, renamed))
    raise UnknownFilter(f"There is no saved filter {form.former!r}.")


@routes.action(
    "remove-filter",
    RemoveFilterForm,
    roles=PRODUCERS,
    confirm=lambda form: f"Remove the filter {form.name} for everyone?",
)
async def remove_filter(page: PageContext[None], form: RemoveFilterForm) -> ActionResult:
    """Remove a saved filter."""
    await remove_visible_filter(page.context, form.name)
    return ActionResult(f"The filter {form.name} is removed.")
