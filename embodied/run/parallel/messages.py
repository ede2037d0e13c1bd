"""Messages between the processes of a run: nested values and arrays, sent with `portal`.

Nothing in a message runs code when it is read. `portal` has more to offer, but its `Server` polls,
which takes a tenth of a core, and its encoding knows neither tuples nor bfloat16.
"""

import contextlib
import json
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import portal

from embodied.core.state_tree import dtype_from_name, dtype_name, flatten, unflatten

#: Address of a client.
Peer = tuple[Any, ...]
#: Seconds after which a process that finds no server says so.
PATIENCE = 30.0
CONNECT_SECONDS = 10.0
RETRY_SECONDS = 0.1
CLOSE_SECONDS = 5.0
LARGE = 64 * 1024
# The parts of a run limit by themselves what is under way.
_OPTIONS: Any = {"logging": False, "max_recv_queue": 1_000_000, "max_send_queue": 1_000_000}


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
    # Not `portal.free_port`, whose reuse of addresses gives several programs the same port.
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{host}:{probe.getsockname()[1]}"


def pack(value: Any) -> bytes:
    """Turn nested dicts, lists, tuples, plain values and arrays into a message.

    Raises:
      TypeError: If there is anything else in the value.
    """
    flat = flatten(value)
    specs = [[dtype_name(array.dtype), list(array.shape)] for array in flat.arrays]
    header = json.dumps([flat.tree, specs]).encode()
    content = [array.reshape(-1).view(np.uint8).data for array in flat.arrays if array.nbytes]
    return b"".join([len(header).to_bytes(8, "little"), header, *content])


def unpack(message: memoryview) -> Any:
    """The inverse of `pack`; arrays are in the memory of the message and may be written to."""
    start = 8 + int.from_bytes(message[:8], "little")
    tree, specs = json.loads(bytes(message[8:start]))
    arrays = []
    for name, shape in specs:
        dtype, count = dtype_from_name(name), math.prod(shape)
        array = np.frombuffer(message, dtype, count, start) if count else np.empty(0, dtype)
        arrays.append(array.reshape(shape))
        start += array.nbytes
    return unflatten(tree, arrays)


class Connection:
    """The connection of a client. One thread may receive; several may send.

    It speaks to a `portal.ServerSocket` in place of `portal.ClientSocket`, whose thread looks for
    messages every millisecond, and without a break after some: with eight environments, most of a
    core.
    """

    def __init__(self, address: str, ipv6: bool = False, patience: float = PATIENCE) -> None:
        """Connect, waiting for the server to come up.

        Args:
          address: `host:port`; a host of `0.0.0.0` or `::` means this machine.
          ipv6: Whether to use IPv6.
          patience: Seconds after which it prints that it still waits.
        """
        host, _, port = address.rpartition(":")
        if host in ("localhost", "0.0.0.0", "::"):
            host = "::1" if ipv6 else "127.0.0.1"
        self._address = address
        self._sending = threading.Lock()
        deadline = time.monotonic() + patience
        while True:
            try:
                self._sock = socket.create_connection((host, int(port)), CONNECT_SECONDS)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    print(f"Waiting for {address}, where nobody answers: {error}.", flush=True)
                    deadline = math.inf
            time.sleep(RETRY_SECONDS)
        self._sock.settimeout(None)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        options = portal.client_socket.Options
        portal.utils.set_keepalive(
            self._sock, options.keepalive_after, options.keepalive_every, options.keepalive_fails
        )
        with self._as_connection_error():
            self._sock.sendall(options.handshake.encode())

    def send(self, value: Any) -> None:
        """Send a value; see `pack`.

        Raises:
          ConnectionError: If the connection is lost.
        """
        buffer = portal.buffers.SendBuffer(pack(value))
        with self._sending, self._as_connection_error():
            while not buffer.done():
                buffer.send(self._sock)

    def receive(self) -> Any:
        """Wait for the next value; its arrays may be written to.

        Raises:
          ConnectionError: If the connection is lost, or closed by another thread.
        """
        buffer = portal.buffers.RecvBuffer(portal.client_socket.Options.max_msg_size)
        with self._as_connection_error():
            while not buffer.done():
                buffer.recv(self._sock)
        return unpack(buffer.result())

    def close(self) -> None:
        """Close it; threads that wait in `send` or `receive` get an error."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        with self._sending:
            self._sock.close()

    @contextlib.contextmanager
    def _as_connection_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"Lost the connection to {self._address}: {type(error).__name__}: {error}"
            raise ConnectionError(message) from error


class Server:
    """Receives values from clients and answers them."""

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
        self._socket = _ServerSocket(int(port), host=host, ipv6=ipv6)

    @property
    def clients(self) -> int:
        """Number of clients that are connected."""
        return len(self._socket.connections)

    def receive(self, timeout: float = 0.2) -> tuple[Peer, Any]:
        """Wait for a value; return it after the client that has sent it.

        Raises:
          TimeoutError: If there is none within that many seconds.
        """
        peer, message = self._socket.recv(timeout)
        return peer, unpack(message)

    def send(self, peer: Peer, value: Any) -> None:
        """Send a value to a client; see `pack`. Several threads may do so.

        Raises:
          ConnectionError: If the client is gone.
        """
        message = pack(value)
        if peer not in self._socket.conns:
            raise ConnectionError("The client is gone.")
        self._socket.send(peer, message)

    def close(self) -> None:
        """Close all connections."""
        self._socket.close(CLOSE_SECONDS)


class _ServerSocket(portal.ServerSocket):
    """Works around faults of portal 3.8; pyproject.toml admits no other version for that."""

    def __init__(self, port: int, host: str, ipv6: bool) -> None:
        super().__init__(port, host=host, ipv6=ipv6, **_OPTIONS)
        # Connections that are accepted inherit this.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, addr: Peer, *data: bytes) -> None:
        super().send(addr, *data)
        # Its thread sleeps between the parts of a message that is too large to be sent at once.
        connection = self.conns.get(addr)
        while sum(map(len, data)) > LARGE and connection and connection.sendbufs:
            time.sleep(0.0005)
            os.write(self.set_signal, b"\0")

    def _numsending(self) -> int:
        # Called by several threads, one of which adds and removes connections.
        return sum(len(connection.sendbufs) for connection in tuple(self.conns.values()))

    def _handshake(self, conn: Any) -> None:
        received = len(conn.handshake)
        super()._handshake(conn)
        # A client that leaves before it has said anything makes its thread spin.
        if len(conn.handshake) == received and conn.addr in self.conns:
            self._disconnect(conn, ConnectionResetError())
