"""Processor dialect: messages as lines of JSON on stdin and stdout, and a log on stderr."""
