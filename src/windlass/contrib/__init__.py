"""Integrations with Django, OpenTelemetry, Prometheus and pydantic-ai. Each needs the extra of its name."""
