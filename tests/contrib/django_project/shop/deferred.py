"""Task outside of the module `tasks`, which imports it."""

from django.conf import settings

if settings.BACKPORT:
    from django_tasks import task
else:
    from django.tasks import task


@task
def remind(order):
    return order
