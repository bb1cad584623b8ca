"""What each command does: one file per group. A command reads its parameters, decides, and asks the engine once."""
