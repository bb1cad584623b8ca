"""How a page or an action becomes a route: what is done before and after, the same for all of them."""

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
from .page_context import PageContext, local_path
from .rendering import HEADERS, HTML, render_page
from .response_cache import clear_cache

FORM = "application/x-www-form-urlencoded"
FORM_MAX = 4 * 1024 * 1024  # a payload may be typed into one
FIELDS_MAX = 2000
ENGINE_TIMEOUT_S = 3.0  # for the engine: somebody looks at an empty window meanwhile

F = TypeVar("F", bound="Form")
PageHandler: TypeAlias = Callable[[PageContext[Any]], Awaitable[Any]]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What every form of ours says. An action's own fields are those of a subclass."""

    csrf: str = ""
    back: str = ""  # the page to return to
    confirmed: bool = False


class ActionResult(msgspec.Struct, frozen=True):
    """What was done, in a sentence; and where to go on, if not where the form was."""

    text: str
    to: str = ""
    kind: str = "good"


class PageResult(msgspec.Struct, frozen=True):
    """What was found, as a page: for an action whose answer cannot be asked for again."""

    template: str
    view: Any


class ConfirmationView(msgspec.Struct, frozen=True):
    """Something will be destroyed: a question, and the form that answers it."""

    question: str
    action: str
    fields: list[tuple[str, str]]
    back: str


ActionOutcome: TypeAlias = ActionResult | PageResult
ActionHandler: TypeAlias = Callable[[PageContext[Any], F], Awaitable[ActionOutcome]]


class StaleForm(HttpRefusal):
    code = "stale_form"
    status = 400
    sentence = "This form is too old, or not of this page: nothing was done. Reload the page and try again."


@contextlib.asynccontextmanager
async def engine_timeout() -> AsyncIterator[None]:
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
        """The handler gives what its template shows. `page`: the word of the navigation that it belongs to."""

        def add(handler: PageHandler) -> PageHandler:
            async def answer(context: RequestContext[Any, Any]) -> Response:
                page: PageContext[Any] = PageContext(context.state, context.request.head, context, section)
                async with engine_timeout():
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
        asks: Callable[[F], str] | str = "",
        patience_s: float = ENGINE_TIMEOUT_S,
        again: Callable[[PageContext[Any], F, WindlassError], Awaitable[Response]] | None = None,
    ) -> Callable[[ActionHandler[F]], ActionHandler[F]]:
        """POST /do/<verb>: audited under the handler's name, then back to a page that says how it went. `asks`: the
        question that must be answered first, of what cannot be undone; empty: there is none. `again`: the form once
        more, with what was typed and what is wrong with it."""

        def add(handler: ActionHandler[F]) -> ActionHandler[F]:
            async def answer(context: RequestContext[Any, Any]) -> Response:
                page: PageContext[Any] = PageContext(context.state, context.request.head, context)
                filled = read_form(page, form)
                question = asks if isinstance(asks, str) else asks(filled)
                if question and not filled.confirmed:
                    return render_page("confirm.html", _confirmation_view(page, question, filled), page)
                try:
                    done = await _run_audited(context, handler.__name__, handler(page, filled), patience_s)
                except WindlassError as error:
                    if again is None or isinstance(error, EngineUnavailable):
                        raise
                    return await again(page, filled, error)
                return render_page(done.template, done.view, page) if isinstance(done, PageResult) else _redirect_back(page, done, filled)

            self._add(
                "POST", f"/do/{verb}", handler.__name__, handler, answer, roles=roles, body_media=FORM, form=form
            )
            return handler

        return add

    def _add(self, method: str, path: str, operation: str, told: Any, answer: Any, **more: Any) -> None:
        answer.__doc__ = told.__doc__
        self(
            method, path, operation=operation, response_media=HTML, is_listed=False, is_page=True,
            body_max=FORM_MAX, **more,
        )(answer)  # fmt: skip


def read_form(page: PageContext[Any], wanted: type[F], *, may_be_read_only: bool = False) -> F:
    """Raises when it is not one of ours, or when nothing may be changed here."""
    if page.is_read_only and not may_be_read_only:
        raise Forbidden("This dashboard only shows: it was started with dashboard_read_only. Nothing was done.")
    try:
        filled = parse_query(page.context.request.body.decode(), wanted, FIELDS_MAX)
    except UnicodeDecodeError as error:
        raise BadInput("The form is not UTF-8.") from error
    if not is_same_origin(page.context.request.head) or not page.is_own_form(filled.csrf):
        raise StaleForm
    return filled


async def _run_audited(
    context: RequestContext[Any, Any], operation: str, doing: Awaitable[ActionOutcome], patience_s: float
) -> ActionOutcome:
    outcome = "unknown"
    try:
        async with asyncio.timeout(patience_s):
            done = await doing
        outcome = DONE
        return done
    except TimeoutError:
        raise EngineUnavailable("The engine has not answered in time; look whether it was done.") from None
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
        fields += [(name, str(int(one)) if isinstance(one, bool) else str(one)) for one in many]
    return ConfirmationView(question, f"{page.base}{page.context.request.head.path}", fields, local_path(page, form.back))


def _redirect_back(page: PageContext[Any], done: ActionResult, form: Form) -> Response:
    told = page.cookie(flash.COOKIE, flash.write(Flash(done.text, done.kind)), flash.LIFETIME_S)
    to = local_path(page, done.to or form.back)
    return Response(303, b"", (*HEADERS, ("Location", to), told), HTML)
