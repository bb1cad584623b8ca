"""Callbacks: pending deliveries, their signatures and their URLs."""
