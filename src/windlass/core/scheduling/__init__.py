"""Cron expressions, repeat rules, schedules and their occurrences."""
