"""Event streams: readers, positions, subscriptions and buffers."""
