"""Commands: one function per engine operation, which builds its arguments and parses its reply. No I/O."""
