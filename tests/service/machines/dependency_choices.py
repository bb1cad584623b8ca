"""Choices of the dependency machine."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from tests.service.machines.dependency_model import LEASE_MS

POLICIES = ("", "", "collect", "fail", "ignore")
NEED_LEASES = ("hand_over", "leave_alone", "finish", "fail", "release")
LIKELY = ("hand_over", "take", "take", "finish", "finish", "fail", "fail")
picks = st.integers(0, 30)
some_picks = st.lists(picks, max_size=3)
policies = st.sampled_from(POLICIES)


def choose_step(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    """Return a rule of the machine and its arguments."""
    pick, few, claim = chance.randint(0, 30), chance.randint(1, 4), chance.random() < 0.5
    policy = chance.choice(POLICIES)
    after = [chance.randint(0, 30) for _ in range(chance.choice((0, 0, 1, 2)))]
    is_rare, delay_ms = chance.random() < 0.2, chance.choice((0, 0, 0, 5_000))
    arguments: dict[str, tuple[Any, ...]] = {
        "enqueue": (pick, claim, after, chance.random() < 0.5, is_rare, policy, delay_ms, int(is_rare)),
        "raise_children": (pick, few, claim, policy),
        "hand_over": (pick, few, policy),
        "follow": (pick, few, policy, is_rare),
        "take": (few,),
        "finish": (pick,),
        "fail": (pick, chance.choice(("retry", "final", "cancelled"))),
        "release": (pick,),
        "cancel": (pick, not is_rare),
        "intervene": (pick, chance.choice(("requeue", "retry", "wake", "delete", "delete"))),
        "leave_alone": (pick, few, chance.choice(("delete", "requeue"))),
        "pass_time": (chance.choice((1, 5_000, LEASE_MS)),),
    }
    verb = chance.choice((*arguments, *LIKELY))
    return verb, arguments[verb]
