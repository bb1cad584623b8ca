"""OpenAPI documents and the API reference page."""
