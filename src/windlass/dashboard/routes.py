"""Routes of pages and actions: the common steps before and after each handler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from windlass.core.access.audit import DONE
from windlass.core.access.tokens import Role
from windlass.core.errors import BadInput, EngineUnavailable, Forbidden, WindlassError
from windlass.web.app.audit import write_audit_entry
from windlass.web.app.auth import is_same_origin
from windlass.web.app.query_parser import parse_query
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, READERS, Routes
from windlass.web.listener.messages import Response
from windlass.wire.problems import HttpRefusal

from . import flash
from .flash import Flash
from .navigation import check_usage
from .page_context import PageContext, local_path
from .rendering import HEADERS, HTML, render_page
from .response_cache import clear_cache

FORM = "application/x-www-form-urlencoded"
FORM_MAX = 4 * 1024 * 1024  # bytes; a form may contain a payload
FIELDS_MAX = 2000
ENGINE_TIMEOUT_S = 3.0  # short, because the user sees an empty window until the engine answers

F = TypeVar("F", bound="Form")
PageHandler: TypeAlias = Callable[[PageContext[Any]], Awaitable[Any]]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of every form. Subclasses add the fields of an action."""

    csrf: str = ""
    back: str = ""  # the page to return to
    confirmed: bool = False


class ActionResult(msgspec.Struct, frozen=True):
    """Result of an action as a sentence for the next page. `to` is that page; empty: the page with the form."""

    text: str
    to: str = ""
    kind: str = "good"


class PageResult(msgspec.Struct, frozen=True):
    """Result of an action as a page of its own, for results that cannot be read again."""

    template: str
    view: Any


class ConfirmationView(msgspec.Struct, frozen=True):
    """Confirmation page of a destructive action: the question, and the form to send again."""

    question: str
    action: str
    fields: list[tuple[str, str]]
    back: str


ActionOutcome: TypeAlias = ActionResult | PageResult
ActionHandler: TypeAlias = Callable[[PageContext[Any], F], Awaitable[ActionOutcome]]


class StaleForm(HttpRefusal):
    code = "stale_form"
    status = 400
    sentence = "This form is too old, or comes from another site: nothing was done. Reload the page and try again."


@contextlib.asynccontextmanager
async def engine_timeout() -> AsyncIterator[None]:
    """Raise EngineUnavailable if the block takes longer than ENGINE_TIMEOUT_S."""
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT_S):
            yield
    except TimeoutError:
        raise EngineUnavailable(f"The engine has not answered within {ENGINE_TIMEOUT_S:g} s.") from None


class DashboardRoutes(Routes):
    def __init__(self) -> None:
        super().__init__(tag="Dashboard")

    def page(
        self,
        path: str,
        template: str,
        *,
        section: str,
        roles: frozenset[Role] | None = READERS,
        query: type[msgspec.Struct] | None = None,
    ) -> Callable[[PageHandler], PageHandler]:
        """Add a page. The handler returns the view for the template. `section` is the entry in the navigation."""

        def add(handler: PageHandler) -> PageHandler:
            async def answer(context: RequestContext[Any, Any]) -> Response:
                page: PageContext[Any] = PageContext(context.state, context.request.head, context, section)
                async with engine_timeout():
                    if page.is_known:
                        await check_usage(context.state)
                    view = await handler(page)
                return view if isinstance(view, Response) else render_page(template, view, page)

            self._add("GET", path, f"{handler.__name__}_page", handler, answer, roles=roles, query=query)
            return handler

        return add

    def action(
        self,
        verb: str,
        form: type[F],
        *,
        roles: frozenset[Role] = ADMINS,
        confirm: Callable[[F], str] | str = "",
        timeout_s: float = ENGINE_TIMEOUT_S,
        on_error: Callable[[PageContext[Any], F, WindlassError], Awaitable[Response]] | None = None,
    ) -> Callable[[ActionHandler[F]], ActionHandler[F]]:
        """Add the action POST /do/<verb>. It is audited under the handler's name, and redirects to a page that shows
        the result. `confirm` is the question to answer before a destructive action; empty: none. `on_error` shows the
        form again, with the typed values and the error."""

        def add(handler: ActionHandler[F]) -> ActionHandler[F]:
            async def answer(context: RequestContext[Any, Any]) -> Response:
                page: PageContext[Any] = PageContext(context.state, context.request.head, context)
                filled = read_form(page, form)
                question = confirm if isinstance(confirm, str) else confirm(filled)
                if question and not filled.confirmed:
                    return render_page("confirm.html", _confirmation_view(page, question, filled), page)
                try:
                    result = await _run_audited(context, handler.__name__, handler(page, filled), timeout_s)
                except WindlassError as error:
                    if on_error is None or isinstance(error, EngineUnavailable):
                        raise
                    return await on_error(page, filled, error)
                if isinstance(result, PageResult):
                    return render_page(result.template, result.view, page)
                return _redirect_back(page, result, filled)

            self._add("POST", f"/do/{verb}", handler.__name__, handler, answer, roles=roles, body_media=FORM, form=form)
            return handler

        return add

    def _add(self, method: str, path: str, operation: str, handler: Any, answer: Any, **more: Any) -> None:
        answer.__doc__ = handler.__doc__
        self(
            method, path, operation=operation, response_media=HTML, is_listed=False, is_page=True,
            body_max=FORM_MAX, **more,
        )(answer)  # fmt: skip


def read_form(page: PageContext[Any], form: type[F], *, allow_read_only: bool = False) -> F:
    """Read the form. Raise StaleForm if it does not come from one of our pages, Forbidden in read-only mode."""
    if page.is_read_only and not allow_read_only:
        raise Forbidden("This dashboard is read-only (setting dashboard_read_only). Nothing was done.")
    try:
        filled = parse_query(page.context.request.body.decode(), form, FIELDS_MAX)
    except UnicodeDecodeError as error:
        raise BadInput("The form is not UTF-8.") from error
    if not is_same_origin(page.context.request.head) or not page.is_own_form(filled.csrf):
        raise StaleForm
    return filled


async def _run_audited(
    context: RequestContext[Any, Any], operation: str, action: Awaitable[ActionOutcome], timeout_s: float
) -> ActionOutcome:
    outcome = "unknown"
    try:
        async with asyncio.timeout(timeout_s):
            result = await action
        outcome = DONE
        return result
    except TimeoutError:
        raise EngineUnavailable(
            f"The engine has not answered within {timeout_s:g} s. The action may have been done: check before a retry."
        ) from None
    except WindlassError as error:
        outcome = error.code
        raise
    finally:
        clear_cache(context.state)
        await write_audit_entry(context, operation, outcome)


def _confirmation_view(page: PageContext[Any], question: str, form: Form) -> ConfirmationView:
    fields = []
    for name, value in msgspec.structs.asdict(form).items():
        if name == "confirmed" or value is None:
            continue
        many = value if isinstance(value, list | tuple) else (value,)
        fields += [(name, str(int(item)) if isinstance(item, bool) else str(item)) for item in many]
    return ConfirmationView(
        question, f"{page.base}{page.context.request.head.path}", fields, local_path(page, form.back)
    )


def _redirect_back(page: PageContext[Any], result: ActionResult, form: Form) -> Response:
    message = page.cookie(flash.COOKIE, flash.write(Flash(result.text, result.kind)), flash.LIFETIME_S)
    to = local_path(page, result.to or form.back)
    return Response(303, b"", (*HEADERS, ("Location", to), message), HTML)
