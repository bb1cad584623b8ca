"""Input of a type checker, never run. Each marked line must be refused with the given error, and no other line."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from windlass import CallNext, Context, Depends, JobHandle, Windlass

app = Windlass()


class Session:
    def __init__(self, name: str = "") -> None: ...


def get_session() -> Iterator[Session]:
    yield Session()


async def get_client() -> AsyncIterator[int]:
    yield 1


async def get_token() -> str:
    return ""


def get_number() -> float:
    return 1.0


@app.task
def report(
    order: int,
    db: Session = Depends(get_session),
    client: int = Depends(get_client),
    token: str = Depends(get_token, scope="worker"),
    number: float = Depends(get_number),
    made: Session = Depends(Session),
    ctx: Context = Depends(Context),
) -> str:
    return ""


assert_type(report.enqueue(1), JobHandle[str])
report.enqueue("one")  # error: arg-type
report(1, db=Session())


def other(
    db: int = Depends(get_session),  # error: assignment
    token: int = Depends(get_token),  # error: assignment
    scoped: float = Depends(get_number, scope="app"),  # error: call-overload
) -> None: ...


@app.batch_task(most=10)
async def index(pages: list[str]) -> None: ...


@app.batch_task(most=10, wait="1s", queue="b")
def sized(pages: list[str], db: Session = Depends(get_session)) -> list[int | Exception]:
    return [len(page) for page in pages]


assert_type(index.enqueue("page"), JobHandle[None])
assert_type(sized.enqueue("page"), JobHandle[int])
index.enqueue(["page"])  # error: arg-type
sized.enqueue(1)  # error: arg-type
sized("page")  # error: arg-type


@app.batch_task(most=10)  # error: arg-type
def no_batch(page: str) -> None: ...


@app.task(version=2, retry_on=OSError, give_up_on=(ValueError, KeyError))
def moved(number: int) -> None: ...


@moved.migrate(1)
def _(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


@moved.migrate(1)  # error: type-var
def _wrong(arguments: dict[str, Any]) -> None: ...


@app.middleware
async def timed(ctx: Context, call_next: CallNext) -> Any:
    return await call_next()


@app.middleware  # error: type-var
def not_async(ctx: Context) -> int:
    return 1
