"""A server and its clients, which send each other values over TCP; docs/scripts.md says why so."""

import contextlib
import math
import selectors
import socket
import struct
import threading
import time
from collections import deque
from typing import Any

import numpy as np

from embodied.run.parallel.encoding import pack, unpack

#: Seconds after which a process that finds no server says so.
PATIENCE = 30.0
CONNECT_SECONDS = 10.0
RETRY_SECONDS = 0.1
#: Bytes that a message may have after its header.
MAX_BYTES = 2**32
#: A mark by which strangers are told, and the number of bytes that follow.
HEADER = struct.Struct("<8sQ")
MARK = b"embodied"
#: A connection is lost when the other machine does not answer for 110 seconds.
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 10}


class Connection:
    """One end of a connection. One thread may receive, several may send."""

    def __init__(self, sock: socket.socket, other: str) -> None:
        """Take over a connected socket; `other` names the other end in errors."""
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in KEEPALIVE.keys() & vars(socket).keys():
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), KEEPALIVE[name])
        self.sock = sock
        self._other = other
        self._sending = threading.Lock()
        self._expect(HEADER.size, header=True)

    def send(self, value: Any) -> None:
        """Send a value, of which `encoding.pack` says what it may be.

        It may have to wait until the other end receives.

        Raises:
          ConnectionError: If the connection is lost.
          ValueError: If the message has more than 4 GiB.
        """
        parts = pack(value)
        size = sum(map(len, parts))
        if size > MAX_BYTES:
            raise ValueError(f"Got a message of {size:,} bytes, expected at most {MAX_BYTES:,}.")
        message = b"".join([HEADER.pack(MARK, size), *parts])
        try:
            with self._sending:
                self.sock.sendall(message)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, wait: bool = True) -> Any:
        """Return the next value; its arrays may be written to.

        Raises:
          ConnectionError: If the connection is lost, or closed by another thread.
          BlockingIOError: If it has not come as a whole and is not to be waited for.
          Exception: If the other end has sent something else.
        """
        try:
            if self._in_header:
                self._fill(wait)
                mark, size = HEADER.unpack(self._buffer)
                if mark != MARK or not 0 < size <= MAX_BYTES:
                    raise ValueError(f"Got {bytes(self._buffer)!r}, expected {MARK!r} and a size.")
                self._expect(size, header=False)
            self._fill(wait)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._lost(error) from error
        message = self._buffer
        self._expect(HEADER.size, header=True)
        return unpack(message)

    def close(self) -> None:
        """Close it; threads that wait in `send` or `receive` get an error."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        with self._sending:
            self.sock.close()

    def _expect(self, size: int, header: bool) -> None:
        self._buffer, self._filled, self._in_header = np.empty(size, np.uint8).data, 0, header

    def _fill(self, wait: bool) -> None:
        """Fill the buffer, going on where an earlier call found nothing more."""
        flags = socket.MSG_WAITALL if wait else socket.MSG_DONTWAIT
        while self._filled < len(self._buffer):
            count = self.sock.recv_into(self._buffer[self._filled :], 0, flags)
            if not count:
                raise ConnectionResetError("it was closed")
            self._filled += count

    def _lost(self, error: OSError) -> ConnectionError:
        name = type(error).__name__
        return ConnectionError(f"Lost the connection to {self._other}: {name}: {error}")


def connect(address: str, ipv6: bool = False, patience: float = PATIENCE) -> Connection:
    """Connect to a server, waiting for it to come up.

    Args:
      address: `host:port`; a host of `0.0.0.0` or `::` means this machine.
      ipv6: Whether to use IPv6.
      patience: Seconds after which it prints that it still waits.
    """
    host, _, port = address.rpartition(":")
    if host in ("localhost", "0.0.0.0", "::"):
        host = "::1" if ipv6 else "127.0.0.1"
    deadline = time.monotonic() + patience
    while True:
        try:
            sock = socket.create_connection((host, int(port)), CONNECT_SECONDS)
            return Connection(sock, address)
        except OSError as error:
            if time.monotonic() > deadline:
                print(f"Waiting for {address}, where nobody answers: {error}.", flush=True)
                deadline = math.inf
        time.sleep(RETRY_SECONDS)


class Server:
    """Receives values from clients; the thread that does so reads for all of them.

    Attributes:
      clients: The ends of the connections, as of when the server last received.
    """

    def __init__(self, address: str, ipv6: bool = False) -> None:
        """Begin to listen.

        Args:
          address: `host:port`; `localhost` is the loopback interface, which other machines cannot
            reach, `0.0.0.0` is every interface.
          ipv6: Whether to use IPv6.

        Raises:
          OSError: If the address is taken or not of this machine.
        """
        host, _, port = address.rpartition(":")
        if host == "localhost":
            host = "::1" if ipv6 else "127.0.0.1"
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        self._listener = socket.create_server((host, int(port)), family=family, backlog=1024)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.clients: set[Connection] = set()
        self._arrived: deque[tuple[Connection, Any]] = deque()
        self._receiving = threading.Lock()
        self._closed = False

    def receive(self, timeout: float = 0.2) -> tuple[Connection, Any]:
        """Wait for a value; return it after the connection that answers its sender.

        Raises:
          TimeoutError: If there is none within that many seconds.
          ConnectionError: If the server is closed.
        """
        deadline = time.monotonic() + timeout
        with self._receiving:
            while not self._arrived:
                if self._closed:
                    raise ConnectionError("The server is closed.")
                events = self._selector.select(max(0.0, deadline - time.monotonic()))
                if not events:
                    raise TimeoutError
                for key, _ in events:
                    self._read(key.data) if key.data else self._accept()
            return self._arrived.popleft()

    def close(self) -> None:
        """Close all connections; a thread that waits in `receive` gets an error."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # Wakes the thread.
        with self._receiving:
            for client in tuple(self.clients):
                self._drop(client)
            self._selector.close()
            self._listener.close()

    def _accept(self) -> None:
        try:
            sock, address = self._listener.accept()
            client = Connection(sock, f"{address[0]}:{address[1]}")
        except OSError:  # It is gone again, or this process may open no more files.
            time.sleep(RETRY_SECONDS)
            return
        self.clients.add(client)
        self._selector.register(sock, selectors.EVENT_READ, client)

    def _read(self, client: Connection) -> None:
        try:
            self._arrived.append((client, client.receive(wait=False)))
        except BlockingIOError:
            pass
        except Exception as error:
            if not isinstance(error, OSError):  # What strangers send is no matter of the others.
                print(f"Closed a connection that sent no message: {error!r}.", flush=True)
            self._drop(client)

    def _drop(self, client: Connection) -> None:
        self.clients.remove(client)
        self._selector.unregister(client.sock)
        client.close()
