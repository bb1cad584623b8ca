"""The native API, /api/v1: the verbs of the service over HTTP, for any language."""
