"""ASGI transport: the web application inside the server of another program."""
