"""One function per operation: builds the call of its script and reads the answer. No I/O here."""
