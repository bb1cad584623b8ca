"""Integrations with Django, Flask, OpenTelemetry, Prometheus, pydantic-ai and Starlette. Each needs its extra."""
