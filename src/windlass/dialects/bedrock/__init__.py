"""Bedrock::Jobs dialect over TCP: wire format, connections, and the router that runs the commands."""
