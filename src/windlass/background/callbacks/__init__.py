"""How callbacks are delivered: what is said, over what, and how many at once. When and again is ../notifier.py's."""
