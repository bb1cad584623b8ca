"""Command palette: pages, queues, jobs, flows, schedules, tags, saved filters and actions by a few typed words."""
