"""Forms of pages: filters, queue settings, payloads."""
