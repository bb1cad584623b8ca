"""Python SDK: applications, tasks, calls, workers."""
