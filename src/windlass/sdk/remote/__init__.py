"""The service of a deployment whose engine cannot be reached, over the HTTP API of its server."""
