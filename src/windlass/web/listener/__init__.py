"""HTTP listener: sockets, request parser, response writer, limits, TLS."""
