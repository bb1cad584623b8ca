"""HTTP application: router, request context, authentication, sessions, problems."""
