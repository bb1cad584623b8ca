"""Client of the native HTTP API: the service of a deployment that is reached through its server."""
