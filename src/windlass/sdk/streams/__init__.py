"""Readers of the streams of jobs, for programs and for web responses."""
