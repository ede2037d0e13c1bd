"""Remote calls: a server that offers functions, and a client that calls them."""

import contextlib
import itertools
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn

from embodied.run.parallel.messages import Connection, Server, connect

#: Functions by name, each with how many calls of it may run at once.
Offers = Mapping[str, tuple[Callable[..., Any], int]]


class RemoteError(RuntimeError):
    """A remote call failed; the message has the traceback of the server."""


def serve(address: str, ipv6: bool, offers: Offers) -> NoReturn:
    """Answer calls of clients until a function fails.

    Args:
      address: Where to listen, as `host:port`.
      ipv6: Whether to use IPv6.
      offers: Functions by name, each with how many calls of it may run at once; those of a function
        with one are made in the order in which they were asked for.

    Raises:
      Exception: What the function has raised.
    """
    server = Server(address, ipv6)
    pools = {name: ThreadPoolExecutor(workers) for name, (_, workers) in offers.items()}
    errors: list[Exception] = []

    def answer(client: Connection, number: int, name: str, args: list[Any]) -> None:
        try:
            result = offers[name][0](*args)
            with contextlib.suppress(ConnectionError):  # Nobody may be left to tell.
                client.send([number, True, result])
        except Exception as error:
            with contextlib.suppress(ConnectionError):
                client.send([number, False, traceback.format_exc()])
            errors.append(error)

    with contextlib.closing(server):
        while not errors:
            with contextlib.suppress(TimeoutError):
                client, (number, name, args) = server.receive()
                pools[name].submit(answer, client, number, name, args)
    raise errors[0]


class RpcClient:
    """Calls functions of a server; may be used by several threads."""

    def __init__(self, address: str, ipv6: bool = False) -> None:
        """Connect, waiting for the server to come up.

        Args:
          address: `host:port`.
          ipv6: Whether to use IPv6.
        """
        self._address = address
        self._connection = connect(address, ipv6)
        self._numbers = itertools.count()
        self._futures: dict[int, Future[Any]] = {}
        self._reader = threading.Thread(target=self._read, name="rpc", daemon=True)
        self._reader.start()

    def start(self, name: str, *args: Any) -> Callable[[], Any]:
        """Begin a call; the function that is returned waits for its result.

        Raises:
          ConnectionError: If the connection is lost.
          RemoteError: If the function failed.
        """
        number, future = next(self._numbers), Future[Any]()
        self._futures[number] = future
        self._connection.send([number, name, list(args)])
        return future.result

    def __call__(self, name: str, *args: Any) -> Any:
        """Call a function and wait for its result; errors are those of `start`."""
        return self.start(name, *args)()

    def close(self) -> None:
        """Close the connection; calls that wait for results fail."""
        self._connection.close()
        self._reader.join()

    def _read(self) -> None:
        try:
            while True:
                number, success, value = self._connection.receive()
                future = self._futures.pop(number)
                if success:
                    future.set_result(value)
                else:
                    text = f"The server at {self._address} failed:\n{value}"
                    future.set_exception(RemoteError(text))
        except ConnectionError as error:
            # Later calls fail when they are sent, so that no future is missed.
            self._connection.close()
            for future in list(self._futures.values()):
                future.set_exception(error)
