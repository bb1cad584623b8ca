"""Evaluation of alert rules, and the bodies of their messages."""
