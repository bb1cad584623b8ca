"""Alert rules, their incidents, and the messages about them. No I/O, no clock."""
