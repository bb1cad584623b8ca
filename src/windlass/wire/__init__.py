"""Request and response shapes of the HTTP API and their encoding, shared by the server and the SDK."""
