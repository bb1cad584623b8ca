"""Tasks: declaration, arguments, options and dependencies of a task's function."""
