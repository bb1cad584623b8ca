"""How Python programs use Windlass: tasks and their calls, workers, testing. Public names are listed in `windlass`."""
