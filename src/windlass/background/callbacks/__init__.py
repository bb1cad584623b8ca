"""Delivery of callbacks: notifier, backends, bodies, and the number of deliveries in flight."""
