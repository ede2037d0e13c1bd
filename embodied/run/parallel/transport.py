"""Connections between the processes of a run, over TCP."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from embodied.run.parallel import wire

GREETING = b"embodied-parallel-1\n"
RETRY_SECONDS = 0.1
MAX_PARTS = 100_000
_SIZE = struct.Struct("<Q")


def resolve(address: str) -> str:
    """Fill a free port into an address that ends in `{auto}`.

    Raises:
      ValueError: If it is not written as `host:port`.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isdigit() or port == "{auto}"):
        raise ValueError(f"Got address '{address}', expected 'host:port' or 'host:{{auto}}'.")
    if port.isdigit():
        return address
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{host}:{probe.getsockname()[1]}"


class Connection:
    """Sends and receives values; sending is allowed from several threads."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a connected socket."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._sock = sock
        self._sending = threading.Lock()

    def greet(self) -> None:
        """Tell each other that both speak the same language.

        Raises:
          ConnectionError: If the other side does not.
        """
        with _as_connection_error():
            self._sock.sendall(GREETING)
            if bytes(self._receive_bytes(len(GREETING))) != GREETING:
                raise ConnectionError("The other side is no process of this program's version.")

    def send(self, value: Any) -> None:
        """Send nested plain values and arrays; see `wire.pack`.

        Raises:
          ConnectionError: If the connection is lost.
        """
        header, *arrays = wire.pack(value)
        parts = [memoryview(header), *(memoryview(array) for array in arrays)]
        sizes = b"".join(_SIZE.pack(size) for size in (len(parts), *map(len, parts)))
        with self._sending, _as_connection_error():
            self._sock.sendall(
                b"".join([sizes, parts[0], *(x for x in parts[1:] if len(x) < 4096)])
            )
            for part in parts[1:]:
                if len(part) >= 4096:
                    self._sock.sendall(part)

    def receive(self) -> Any:
        """Wait for the next value; its arrays may be written to.

        Raises:
          ConnectionError: If the connection is lost, or closed by `close` in another thread.
        """
        with _as_connection_error():
            (count,) = _SIZE.unpack(self._receive_bytes(_SIZE.size))
            if not 1 <= count <= MAX_PARTS:
                raise ConnectionError(f"Got a message of {count} parts, which cannot be.")
            sizes = np.frombuffer(self._receive_bytes(_SIZE.size * count), "<u8").tolist()
            header = bytes(self._receive_bytes(sizes[0]))
            order = [size for size in sizes[1:] if size < 4096]
            small = [self._receive_bytes(size) for size in order]
            large = [self._receive_bytes(size) for size in sizes[1:] if size >= 4096]
        arrays = [small.pop(0) if size < 4096 else large.pop(0) for size in sizes[1:]]
        return wire.unpack(header, arrays)

    def close(self) -> None:
        """Close it; a thread that waits in `receive` gets an error."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _receive_bytes(self, size: int) -> Any:
        buffer: Any = np.empty(size, np.uint8)
        view, done = memoryview(buffer), 0
        while done < size:
            count = self._sock.recv_into(view[done:])
            if not count:
                raise ConnectionError("The other side has closed the connection.")
            done += count
        return buffer


def connect(address: str, ipv6: bool = False, timeout: float = float("inf")) -> Connection:
    """Connect to a server, waiting for it to come up.

    Args:
      address: `host:port`; a host of `0.0.0.0` or `::` means this machine.
      ipv6: Whether to use IPv6.
      timeout: Seconds.

    Raises:
      ConnectionError: If there is no server within that time.
    """
    host, _, port = address.rpartition(":")
    if host in ("localhost", "0.0.0.0", "::"):
        host = "::1" if ipv6 else "127.0.0.1"
    deadline = time.monotonic() + timeout
    while True:
        sock = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.connect((host, int(port)))
            connection = Connection(sock)
            connection.greet()
            return connection
        except OSError as error:
            sock.close()
            if time.monotonic() > deadline:
                raise ConnectionError(f"Nobody answers at {address}: {error}.") from error
            time.sleep(RETRY_SECONDS)


class Listener:
    """Accepts connections and hands out what they send, each in a thread of its own."""

    def __init__(
        self,
        address: str,
        ipv6: bool,
        on_message: Callable[[Connection, Any], None],
        on_lost: Callable[[Connection], None] | None = None,
    ) -> None:
        """Begin to listen.

        Args:
          address: `host:port`; `localhost` is the loopback interface, which other machines cannot
            reach, `0.0.0.0` is every interface.
          ipv6: Whether to use IPv6.
          on_message: Called with the connection and the value, by several threads at once.
          on_lost: Called with a connection that is gone.

        Raises:
          OSError: If the address is taken or not of this machine.
        """
        host, _, port = address.rpartition(":")
        if host == "localhost":
            host = "::1" if ipv6 else "127.0.0.1"
        self._on_message, self._on_lost = on_message, on_lost
        self._sock = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_STREAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sock.bind((host, int(port)))
        self._sock.listen(1024)
        self._connections: set[Connection] = set()
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def close(self) -> None:
        """Close all connections."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        for connection in list(self._connections):
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            connection = Connection(sock)
            self._connections.add(connection)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: Connection) -> None:
        try:
            connection.greet()
            while True:
                self._on_message(connection, connection.receive())
        except ConnectionError:
            connection.close()
            self._connections.discard(connection)
            if self._on_lost:
                self._on_lost(connection)


@contextlib.contextmanager
def _as_connection_error() -> Any:
    """Every way in which a socket can fail means that the connection is lost."""
    try:
        yield
    except ConnectionError:
        raise
    except (OSError, ValueError) as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from error
