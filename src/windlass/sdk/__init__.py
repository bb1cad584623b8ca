"""How do programs use it? Tasks, calls, workers."""
