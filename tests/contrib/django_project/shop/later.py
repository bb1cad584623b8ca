"""A task outside of the module `tasks`, which that one imports."""

from django.conf import settings

if settings.BACKPORT:
    from django_tasks import task
else:
    from django.tasks import task


@task
def remind(order):
    return order
