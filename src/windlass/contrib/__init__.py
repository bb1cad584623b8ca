"""Integrations with Django, OpenTelemetry and Prometheus. Each needs the extra of its name."""
