"""Tasks of the project."""

from asyncio import CancelledError, gather

from django.conf import settings
from django.db import connection
from django.dispatch import receiver

from .deferred import remind
from .models import Note

if settings.BACKPORT:
    from django_tasks import task
    from django_tasks.signals import task_finished, task_started
else:
    from django.tasks import task
    from django.tasks.signals import task_finished, task_started


remind_soon = remind.using(priority=50)  # the same task under another name


class OutOfPaper(Exception):
    pass


@task
def note(text, *, times=1):
    for _ in range(times):
        Note.objects.create(text=text)
    return {"times": times}


@task
def anything(*args, **kwargs):
    return [args, kwargs]


@task
def finds_an_open_connection():
    was_open = connection.connection is not None
    Note.objects.count()
    return was_open


@task
async def count(text):
    return await Note.objects.filter(text=text).acount()


@task
def print_label(order):
    raise OutOfPaper(f"for order {order}")


@task
async def print_labels(orders):
    raise OutOfPaper(f"for orders {orders}")


@task
def leave(how):
    if how == "exit":
        exit(1)
    raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt, "CancelledError": CancelledError}[how]


@task
async def leave_async(how):
    leave.func(how)


@task
async def leave_in_subtask(how):
    async def code():
        leave.func(how)

    await gather(code())


@task(backend="persistent", queue_name="persistent", takes_context=True)
def third_time_lucky(context, word):
    if context.attempt < 3:
        raise OutOfPaper(word)
    return [context.attempt, context.task_result.id, word, len(context.task_result.errors)]


@task(takes_context=True)
async def who(context):
    return [context.attempt, context.task_result.status, context.task_result.worker_ids]


@task
def unspeakable():
    return object()


@receiver([task_started, task_finished])
def record_signal(sender, task_result, **_):
    if task_result.args == ["signals"]:
        Note.objects.create(text=f"{sender.__name__} {task_result.status}")
