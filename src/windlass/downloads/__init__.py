"""Downloader: its HTTP API, its worker and the wiring of both."""
