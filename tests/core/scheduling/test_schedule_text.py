from __future__ import annotations

import pytest

from windlass.core.job import NewJob
from windlass.core.scheduling.schedule import Schedule
from windlass.core.text.schedule_text import describe_cron, describe_recurrence


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", None),
        ("0 * * * *", "every hour"),
        ("15,45 * * * *", "every hour at minute 15 and 45"),
        ("30 2 * * *", "every day at 02:30"),
        ("0 8,20 * * *", "every day at 08:00 and 20:00"),
        ("0 */6 * * *", "every 6 hours at minute 0"),
        ("0 9 * * 1-5", "weekdays at 09:00"),
        ("0 9 * * mon,7", "every Monday and Sunday at 09:00"),
        ("*/10 * * * 1-5", "every 10 minutes, weekdays"),
        ("0 3 1 * *", "on the 1st of each month at 03:00"),
        ("0 3 11,22 * *", "on the 11th and 22nd of each month at 03:00"),
        ("0 3 L * *", "on the last day of each month at 03:00"),
        ("0 0 1 jan *", "on the 1st of January at 00:00"),
        ("0 0 * 6 2", "every Tuesday in June at 00:00"),
        ("0 30 2 * * *", "every day at 02:30"),
        ("5 30 2 * * *", None),
        ("0 0 13 * 5", None),
        ("0 0 * * 5#2", None),
        ("0-10 3 * * *", None),
    ],
)
def test_cron(cron: str, said: str | None) -> None:
    assert describe_cron(cron) == said


def test_rhythms() -> None:
    job = NewJob(queue="q", name="n")
    assert describe_recurrence(Schedule(name="s", job=job, every_ms=90_000)) == "every 90s"
    assert describe_recurrence(Schedule(name="s", job=job, repeat="HOURLY")) == "HOURLY"
    assert describe_recurrence(Schedule(name="s", job=job, cron="0 4 * * *", timezone="Europe/Athens")) == (
        "every day at 04:00, Europe/Athens"
    )
    assert describe_recurrence(Schedule(name="s", job=job, cron="1-2 4 * * *")) == "1-2 4 * * *"
