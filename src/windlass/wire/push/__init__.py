"""HTTP API of push workers, as the server and the SDK publish it."""
