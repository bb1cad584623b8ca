"""windlass schedules: the group and its commands."""
