"""Forms of pages: filters, queue settings, payloads, and values of a declared type."""
