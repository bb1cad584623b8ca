"""One name for a job, whichever front end reports it."""

from __future__ import annotations

import uuid

from windlass.core.ids import number_of_id


def job_identity(text: str) -> str:
    """Return an id as 32 hexadecimal digits, or as its number if it has one: Bedrock shows only the number."""
    try:
        job_id = uuid.UUID(text)
    except ValueError:
        return text
    number = number_of_id(job_id.bytes)
    return job_id.hex if number is None else number_identity(number)


def number_identity(number: int) -> str:
    return f"number-{number}"
