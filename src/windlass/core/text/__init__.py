"""Conversion between values and text: durations, sentences, encodings."""
