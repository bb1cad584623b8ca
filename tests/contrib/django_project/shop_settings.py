"""Settings of a small project. The test names its engine and database in the environment."""

import importlib.util
import os

from windlass import Backoff

SECRET_KEY = "for tests"  # noqa: S105
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
BACKPORT = [] if importlib.util.find_spec("django.tasks") else ["django_tasks"]
INSTALLED_APPS = [*BACKPORT, "windlass.contrib.django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["SHOP_DATABASE"]}}
_options = {"url": os.environ["SHOP_ENGINE"], "namespace": os.environ["SHOP_NAMESPACE"]}
TASKS = {
    "default": {
        "BACKEND": "windlass.contrib.django.WindlassBackend",
        "QUEUES": ["default", "ordered"],
        "OPTIONS": _options,
    },
    "persistent": {
        "BACKEND": "windlass.contrib.django.WindlassBackend",
        "QUEUES": ["persistent"],
        "OPTIONS": {**_options, "retry": Backoff(tries=3, base=0), "keep_result": "10m"},
    },
    "patient": {
        "BACKEND": "windlass.contrib.django.WindlassBackend",
        "QUEUES": ["patient"],
        "OPTIONS": {**_options, "retry": Backoff(tries=3, base="1h")},
    },
}
