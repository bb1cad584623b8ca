"""Recurrence of a schedule in words: "weekdays at 02:30". Expressions without simple words are shown as written."""

from __future__ import annotations

from windlass.core.scheduling.schedule import Schedule

from .durations import format_duration

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DAY_NUMBERS = {day[:3].upper(): number for number, day in enumerate(_DAYS)} | {"7": 0}
_MONTH_NUMBERS = {month[:3].upper(): number for number, month in enumerate(_MONTHS)}
_TIMES_MAX = 4  # more times would be a list, not a phrase


def format_recurrence(schedule: Schedule) -> str:
    """Return the recurrence as it is written in the schedule."""
    if schedule.cron:
        return schedule.cron if schedule.timezone == "UTC" else f"{schedule.cron} {schedule.timezone}"
    return f"every {format_duration(schedule.every_ms)}" if schedule.every_ms else schedule.repeat


def describe_recurrence(schedule: Schedule) -> str:
    if not schedule.cron:
        return format_recurrence(schedule)
    text = describe_cron(schedule.cron)
    if text is None:
        return format_recurrence(schedule)
    return text if schedule.timezone == "UTC" else f"{text}, {schedule.timezone}"


def describe_cron(expression: str) -> str | None:
    """Describe a cron expression, or return None if there are no simple words for it."""
    fields = expression.upper().split()
    if len(fields) == 6:
        if fields[0] != "0":
            return None
        fields = fields[1:]
    if len(fields) != 5:
        return None
    minute, hour, day, month, weekday = fields
    times, days = _times(minute, hour), _days(day, month, weekday)
    if times is None or days is None:
        return None
    if times.startswith("every"):
        return times if days == "every day" else f"{times}, {days}"
    return f"{days} {times}"


def _times(minute: str, hour: str) -> str | None:
    if hour == "*":
        return _within_the_hour(minute)
    if hour.startswith("*/") and minute.isdecimal():
        step = hour.removeprefix("*/")
        return f"every {step} hours at minute {int(minute)}" if _is_step(step, 24) else None
    minutes, hours = _numbers(minute), _numbers(hour)
    if not minutes or not hours or len(minutes) * len(hours) > _TIMES_MAX:
        return None
    return f"at {_join([f'{at:02}:{past:02}' for at in hours for past in minutes])}"


def _within_the_hour(minute: str) -> str | None:
    if minute in ("*", "*/1"):
        return "every minute"
    if minute.startswith("*/"):
        step = minute.removeprefix("*/")
        return f"every {step} minutes" if _is_step(step, 60) else None
    minutes = _numbers(minute)
    if not minutes or len(minutes) > _TIMES_MAX:
        return None
    if minutes == [0]:
        return "every hour"
    return f"every hour at minute {_join([str(at) for at in minutes])}"


def _days(day: str, month: str, weekday: str) -> str | None:
    of_month = _months(month)
    if of_month is None or (day != "*" and weekday != "*"):
        return None
    if weekday != "*":
        named = _weekdays(weekday)
        return named and named + (f" in {of_month}" if of_month else "")
    if day == "*":
        return f"every day in {of_month}" if of_month else "every day"
    numbers = _numbers(day)
    if day == "L":
        return f"on the last day of {of_month or 'each month'}"
    if not numbers or len(numbers) > _TIMES_MAX:
        return None
    return f"on the {_join([_ordinal(number) for number in numbers])} of {of_month or 'each month'}"


def _months(month: str) -> str | None:
    """Return the names of the months; empty for all months, None if they have no simple words."""
    if month == "*":
        return ""
    found = [_month_name(part) for part in month.split(",")]
    return None if None in found else _join([name for name in found if name])


def _month_name(text: str) -> str | None:
    if text in _MONTH_NUMBERS:
        return _MONTHS[_MONTH_NUMBERS[text]]
    return _MONTHS[int(text) - 1] if text.isdecimal() and 1 <= int(text) <= len(_MONTHS) else None


def _weekdays(weekday: str) -> str | None:
    if weekday in ("1-5", "MON-FRI"):
        return "weekdays"
    found = [_day_number(part) for part in weekday.split(",")]
    return None if None in found else f"every {_join([_DAYS[number] for number in found if number is not None])}"


def _day_number(text: str) -> int | None:
    if text in _DAY_NUMBERS:
        return _DAY_NUMBERS[text]
    return int(text) if text.isdecimal() and int(text) < len(_DAYS) else None


def _numbers(field: str) -> list[int] | None:
    parts = field.split(",")
    return [int(part) for part in parts] if all(part.isdecimal() for part in parts) else None


def _is_step(text: str, whole: int) -> bool:
    """Return whether a step divides the whole evenly. Other steps do not occur at equal distances."""
    return text.isdecimal() and int(text) > 1 and whole % int(text) == 0


def _ordinal(number: int) -> str:
    ending = "th" if 11 <= number % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _join(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
