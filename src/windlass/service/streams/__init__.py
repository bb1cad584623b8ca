"""Readers of the streams of jobs. All readers of one stream in an event loop share its reads."""
