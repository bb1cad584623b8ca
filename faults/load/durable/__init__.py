"""Durable jobs under load: their code, workers that run it, and a client that sends signals and reads streams."""
