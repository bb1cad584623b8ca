"""A socket that acts as an engine, for answers that a real engine does not give on demand (LOADING, garbage)."""

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator

from windlass.store.connection.endpoint import Endpoint


@contextlib.contextmanager
def scripted_engine(*replies: bytes) -> Iterator[Endpoint]:
    """Answer the handshake, then each command of any client with the next of `replies`."""
    left = list(replies)

    def serve(client: socket.socket) -> None:
        with client:
            while request := client.recv(65_536):
                client.sendall(b"+OK\r\n" if b"SETNAME" in request else left.pop(0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()

    with tempfile.TemporaryDirectory(prefix="wl-") as directory, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/s")
        listener.listen()
        threading.Thread(target=accept, daemon=True).start()
        yield Endpoint(unix_path=f"{directory}/s")
        listener.shutdown(socket.SHUT_RDWR)
