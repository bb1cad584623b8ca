"""Integrations: Django, Flask, OpenTelemetry, Prometheus, pydantic-ai, Sentry, Starlette. Each needs its extra."""
