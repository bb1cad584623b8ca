"""One name for a job, whichever front end spoke of it."""

from __future__ import annotations

import uuid

from windlass.core.ids import number_of_id


def identity(text: str) -> str:
    """Ids as 32 hexadecimal digits; those made of a number as that number, since Bedrock says nothing else."""
    try:
        job_id = uuid.UUID(text)
    except ValueError:
        return text
    number = number_of_id(job_id.bytes)
    return job_id.hex if number is None else numbered(number)


def numbered(number: int) -> str:
    return f"number-{number}"
