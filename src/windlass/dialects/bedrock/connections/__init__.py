"""Listening sockets, and their connections: requests in, replies out, and how a connection closes."""
